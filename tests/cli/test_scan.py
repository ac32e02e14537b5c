"""`queryable-state scan`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from tests.cli.conftest import Terminal

from queryable_state.client import InvalidRequestError
from queryable_state.server.config.limits import Limits
from queryable_state.server.testing.cluster import InProcessCluster, declare
from queryable_state.v1 import registration_pb2

if TYPE_CHECKING:
    from pathlib import Path

    from queryable_state.server.testing.cluster import InProcessJob

ALL = {f"sensor_{number}": number / 2 for number in range(30)}


async def test_all_keys_are_rows_and_the_end_says_how_many(terminal: Terminal) -> None:
    ran = await terminal.run("scan", "last")
    assert ran.exit_code == 0
    head, *rows = ran.rows
    assert head == ["key", "value"]
    assert {key: float(value) for key, value in rows} == ALL
    assert ran.lines[-1].startswith("30 keys, batch 1, committed 20")


async def test_all_keys_are_one_json_object(terminal: Terminal) -> None:
    ran = await terminal.run("scan", "last", "--json")
    assert {entry["key"]: entry["value"] for entry in ran.json["keys"]} == ALL
    assert (ran.json["complete"], ran.json["page_token"]) == (True, "")
    assert ran.json["info"]["version"] == 1
    # A key a line, for tools that go by lines.
    assert sum(1 for line in ran.lines if line.startswith('{"key"')) == 30
    nothing = await terminal.run("scan", "last", "--prefix", "x", "--json")
    assert nothing.json["keys"] == []


async def test_ranges_and_prefixes_are_words_too(terminal: Terminal) -> None:
    async def keys_of(*arguments: str) -> set[str]:
        ran = await terminal.run("scan", "last", "--keys-only", *arguments)
        assert ran.rows[0] == ["key"]
        return {row[0] for row in ran.rows[1:]}

    assert await keys_of("--prefix", "sensor_1") == {k for k in ALL if k.startswith("sensor_1")}
    assert await keys_of("--prefix", '"sensor_1"') == {k for k in ALL if k.startswith("sensor_1")}
    assert await keys_of("--start", "sensor_5") == {k for k in ALL if k >= "sensor_5"}
    assert await keys_of("--start", "sensor_2", "--end", "sensor_3") == {
        k for k in ALL if "sensor_2" <= k < "sensor_3"
    }


async def test_tuples_are_scanned_by_their_first_fields(terminal: Terminal) -> None:
    ran = await terminal.run("scan", "trips", "--prefix", '["AA"]')
    assert ran.rows[0] == ["key[0]", "key[1]", "count", "note"]
    assert [row[:3] for row in ran.rows[1:]] == [["AA", "1", "10"], ["AA", "2", "20"]]
    everything = await terminal.run("scan", "trips", "--prefix", "[]", "--json")
    assert len(everything.json["keys"]) == 3
    whole = await terminal.run("scan", "trips", "--prefix", '["B", 1]', "--json")
    assert [entry["key"] for entry in whole.json["keys"]] == [["B", 1]]


async def test_maps_and_lists_are_one_cell(terminal: Terminal) -> None:
    assert (await terminal.run("scan", "counts")).lines[1] == 'sensor_1  {"x": 1, "y": 2}'
    assert (await terminal.run("scan", "seen")).lines[1] == 'sensor_1  ["a", "b\\n"]'


async def test_a_page_token_goes_on_as_of_the_same_batch(
    terminal: Terminal, job: InProcessJob
) -> None:
    first = await terminal.run("scan", "last", "--limit", "20", "--json")
    assert first.exit_code == 0
    assert not first.json["complete"]
    token = first.json["page_token"]
    await job.run(2, {"last": dict.fromkeys(ALL, -1.0)})
    second = await terminal.run("scan", "last", "--limit", "20", "--page-token", token, "--json")
    entries = first.json["keys"] + second.json["keys"]
    assert {entry["key"]: entry["value"] for entry in entries} == ALL
    assert len(entries) == 30
    assert second.json["page_token"] == ""


async def test_a_page_token_goes_on_as_of_a_newer_batch_where_that_will_do(
    terminal: Terminal, job: InProcessJob
) -> None:
    first = await terminal.run("scan", "last", "--limit", "20", "--json")
    page = ["scan", "last", "--page-token", first.json["page_token"], "--allow-newer"]
    assert not (await terminal.run(*page, "--json")).json["is_newer"]
    for batch in range(2, 12):
        await job.run(batch, {"last": dict.fromkeys(ALL, -1.0)})
    second = await terminal.run(*page, "--json")
    assert second.json["is_newer"]
    assert {entry["value"] for entry in second.json["keys"]} == {-1.0}
    assert len(second.json["keys"]) == 10
    assert "from a newer batch than the previous page" in (await terminal.run(*page)).lines


async def test_what_does_not_fit_stands_at_its_key(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with InProcessCluster(tmp_path, limits=Limits(prefix_records=2)) as cluster:
        job = cluster.job("sensors", declare("seen", "string", kind=registration_pb2.LIST))
        await job.run(0, {"seen": {"few": [1, 2], "many": [1, 2]}})
        for batch in range(1, 4):
            await job.run(batch, {"seen": {"many": [batch]}})
        terminal = Terminal(cluster.servers[0].addresses.proxy, capsys)
        table = await terminal.run("scan", "seen")
        ran = await terminal.run("scan", "seen", "--json")
    assert (table.exit_code, ran.exit_code) == (1, 1)
    assert any(line.startswith("many  LIMIT_EXCEEDED: ") for line in table.lines)
    assert table.lines[-1].startswith("not complete: ")
    entries = {entry["key"]: entry for entry in ran.json["keys"]}
    assert entries["few"]["value"] == [1, 2]
    assert entries["many"]["error"]["reason"] == "LIMIT_EXCEEDED"
    assert "value" not in entries["many"]


async def test_the_table_prints_the_token_too(terminal: Terminal) -> None:
    ran = await terminal.run("scan", "last", "--limit", "20")
    hint, _, token = ran.lines[-1].partition(": ")
    assert hint == "more keys may follow"
    rest = await terminal.run("scan", "last", "--limit", "20", *token.split())
    assert len(rest.rows) == 1 + 10


@pytest.mark.parametrize(
    "arguments",
    [
        ["--page-token", "not base64"],
        ["--page-token", "AAAA"],
        ["--limit", "0"],
        ["--limit", str(1 << 64)],
        ["--prefix", "a", "--start", "b"],
    ],
)
async def test_what_cannot_be_a_scan_is_refused(terminal: Terminal, arguments: list[str]) -> None:
    with pytest.raises(InvalidRequestError):
        await terminal.run("scan", "last", *arguments)


async def test_what_breaks_off_is_no_json(terminal: Terminal) -> None:
    with pytest.raises(InvalidRequestError):
        await terminal.run("scan", "last", "--page-token", "AAAA", "--json")
    with pytest.raises(ValueError, match="Expecting"):
        json.loads(terminal.printed())
