"""`queryable-state states` and `queryable-state jobs`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from queryable_state.client import UnknownJobError, UnknownStateError

if TYPE_CHECKING:
    from tests.cli.conftest import Terminal

    from queryable_state.server.testing.cluster import InProcessJob


async def test_states_are_listed_with_their_types(terminal: Terminal) -> None:
    ran = await terminal.run("states")
    assert ran.exit_code == 0
    assert ran.rows == [
        ["job", "state", "kind", "key", "value"],
        ["sensors", "counts", "MAP", "string", "string", "->", "bigint"],
        ["sensors", "last", "VALUE", "string", "double"],
        ["sensors", "seen", "LIST", "string", "string"],
        ["sensors", "trips", "VALUE", "tuple<string,int>", "struct<count:int,note:string>"],
    ]


async def test_a_measure_stands_beside_each(terminal: Terminal) -> None:
    ran = await terminal.run("states", "last", "--measure")
    assert ran.rows[0][-3:] == ["records", "bytes", "complete"]
    [row] = ran.rows[1:]
    assert row[5:7] == ["30", "30"]
    assert row[-1] == "yes"
    [state] = (await terminal.run("states", "last", "--measure", "--json")).json["states"]
    assert (state["records"], state["complete"]) == (30, True)
    assert sum(part["records"] for part in state["parts"]) == 30
    assert {part["error"] for part in state["parts"]} == {None}


async def test_states_as_json(terminal: Terminal, job: InProcessJob) -> None:
    ran = await terminal.run("states", "--job", "sensors", "--json")
    by_name = {state["state"]: state for state in ran.json["states"]}
    assert by_name["counts"] == {
        "job": "sensors",
        "job_id": job.job_id,
        "state": "counts",
        "kind": "MAP",
        "key_type": "string",
        "value_type": "bigint",
        "windowed": False,
        "map_key_type": "string",
        "ttl_ms": None,
        "ttl_per_value": False,
        "asks_all_partitions": False,
    }
    assert by_name["last"]["map_key_type"] is None


async def test_unknown_names_are_refused_with_the_known_ones(terminal: Terminal) -> None:
    with pytest.raises(UnknownStateError, match="counts, last, seen, trips"):
        await terminal.run("states", "lost")
    with pytest.raises(UnknownJobError):
        await terminal.run("states", "--job", "nobody")


async def test_jobs_are_listed(terminal: Terminal, job: InProcessJob) -> None:
    ran = await terminal.run("jobs")
    [row] = ran.rows[1:]
    assert row[:3] == ["sensors", job.job_id, "HEALTHY"]
    assert row[-5:] == ["1", "counts,", "last,", "seen,", "trips"]
    [as_json] = (await terminal.run("jobs", "--json")).json["jobs"]
    assert (as_json["name"], as_json["committed_batch"]) == ("sensors", 1)
    assert as_json["states"] == ["counts", "last", "seen", "trips"]


async def test_hot_keys_are_listed_with_their_shares(terminal: Terminal, job: InProcessJob) -> None:
    job.rows = {"sensor_3": 500}
    await job.run(2, {"last": {f"sensor_{number}": 1.0 for number in range(30)}})
    for _ in range(20):
        await terminal.run("get", "last", "sensor_7")
    ran = await terminal.run("hotkeys", "sensors")
    assert ran.lines[0].split() == ["touched", "by", "state", "key", "share", "count"]
    assert any(line.startswith("queries") and " sensor_7 " in line for line in ran.lines)
    assert any(
        line.startswith("tasks") and "counts, last, seen, trips" in line and " sensor_3 " in line
        for line in ran.lines
    )
    found = (await terminal.run("hotkeys", "sensors", "last", "--limit", "1", "--json")).json
    assert [(key["side"], key["key"]) for key in found["keys"]] == [
        ("READ", "sensor_7"),
        ("WRITE", "sensor_3"),
    ]
    assert found["complete"]
