"""What the commands say where state was lost, or nobody has it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from queryable_state.client import StateLostError

if TYPE_CHECKING:
    from tests.cli.conftest import Terminal

    from queryable_state.server.testing.cluster import InProcessCluster, InProcessJob

KEYS = [f"sensor_{number}" for number in range(30)]


async def test_answers_that_lost_older_state_are_asked_for_and_say_so(
    terminal: Terminal, cluster: InProcessCluster, job: InProcessJob
) -> None:
    await cluster.stop_server(cluster.servers[1])
    await job.run(2, {"last": dict.fromkeys(KEYS, -1.0)})
    with pytest.raises(StateLostError):
        await terminal.run("scan", "last")
    scanned = await terminal.run("scan", "last", "--allow-incomplete")
    assert scanned.exit_code == 1
    assert (
        scanned.lines[-1]
        == "not complete: state of some keys was lost or exceeds the size of a response"
    )
    assert len(scanned.rows) == 1 + 30
    many = await terminal.run("mget", "last", *KEYS, "--json")
    assert many.exit_code == 2
    reasons = {result["error"]["reason"] for result in many.json["results"] if result["error"]}
    assert reasons == {"STATE_LOST"}
    lost = next(result["key"] for result in many.json["results"] if result["error"])
    found = await terminal.run("get", "last", lost, "--allow-incomplete")
    assert "complete since batch 2" in found.lines[-1]


async def test_a_measure_names_the_part_that_did_not_answer(
    terminal: Terminal, cluster: InProcessCluster
) -> None:
    await cluster.stop_server(cluster.servers[1])
    ran = await terminal.run("states", "last", "--measure", "--timeout", "1")
    assert ran.exit_code == 1
    assert ran.rows[1][-1] == "no"
    assert ran.lines[-1].startswith("last, key groups ")
    measured = await terminal.run("states", "last", "--measure", "--timeout", "1", "--json")
    [state] = measured.json["states"]
    assert sum(part["error"] is not None for part in state["parts"]) == 1
