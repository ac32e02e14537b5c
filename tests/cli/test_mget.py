"""`queryable-state mget`."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import pytest

from queryable_state.client import InvalidRequestError

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.conftest import Terminal

    from queryable_state.server.testing.cluster import InProcessCluster, InProcessJob


async def test_every_key_has_its_status(terminal: Terminal) -> None:
    ran = await terminal.run("mget", "last", "sensor_1", "nobody", "sensor_2")
    assert ran.exit_code == 1
    assert ran.rows == [
        ["key", "status", "batch", "value"],
        ["sensor_1", "found", "1", "0.5"],
        ["nobody", "missing", "1"],
        ["sensor_2", "found", "1", "1.0"],
    ]
    assert "3 keys: 2 found, 1 missing, 0 failed" in ran.lines
    assert (await terminal.run("mget", "last", "sensor_1", "sensor_2")).exit_code == 0


async def test_one_cut_is_of_one_batch(terminal: Terminal) -> None:
    keys = [f"sensor_{number}" for number in range(30)]
    ran = await terminal.run("mget", "last", *keys, "--one-cut", "--json")
    assert ran.json["version"] == 1
    assert [result["value"] for result in ran.json["results"]] == [n / 2 for n in range(30)]
    assert {result["status"] for result in ran.json["results"]} == {"found"}


async def test_keys_come_from_a_file_or_from_what_is_piped_in(
    terminal: Terminal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "keys"
    file.write_text('["AA", 1]\n\n["AA", 2]\r\n')
    ran = await terminal.run("mget", "trips", '["B", 1]', "--keys-from", str(file))
    assert [row[:3] for row in ran.rows[1:]] == [
        ["B", "1", "found"],
        ["AA", "1", "found"],
        ["AA", "2", "found"],
    ]
    monkeypatch.setattr("sys.stdin", io.StringIO("sensor_3\n"))
    ran = await terminal.run("mget", "last", "--keys-from", "-")
    assert ran.rows[1:] == [["sensor_3", "found", "1", "1.5"]]


async def test_no_key_and_no_file_are_refused(terminal: Terminal) -> None:
    with pytest.raises(InvalidRequestError, match="no key"):
        await terminal.run("mget", "last")
    with pytest.raises(InvalidRequestError, match="/no/such/file"):
        await terminal.run("mget", "last", "--keys-from", "/no/such/file")


async def test_keys_of_a_lost_owner_fail_alone(
    terminal: Terminal, cluster: InProcessCluster, job: InProcessJob
) -> None:
    """And the command ends with 2, though the others are printed."""
    await cluster.kill_server(cluster.servers[1])
    keys = [f"sensor_{number}" for number in range(30)]
    ran = await terminal.run("mget", "last", *keys, "--timeout", "0.5", "--json")
    assert ran.exit_code == 2
    by_status = {"found": 0, "failed": 0}
    for result in ran.json["results"]:
        by_status[result["status"]] += 1
        assert (result["error"] is None) is (result["status"] == "found")
    assert all(by_status.values())


async def test_options_may_stand_between_the_state_and_its_keys(terminal: Terminal) -> None:
    ran = await terminal.run("mget", "last", "--one-cut", "sensor_1", "sensor_2", "--json")
    assert [result["key"] for result in ran.json["results"]] == ["sensor_1", "sensor_2"]
