"""Windows and timers on the command line."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.cli.conftest import Terminal

from queryable_state.client import Clock, InvalidRequestError, TimeWindow
from queryable_state.server.testing.changes import Windows
from queryable_state.server.testing.cluster import declare, windowed
from queryable_state.v1 import registration_pb2

if TYPE_CHECKING:
    from queryable_state.server.testing.cluster import InProcessCluster

FIRST, SECOND = TimeWindow(0, 60_000), TimeWindow(60_000, 120_500)
FIRST_TEXT = "1970-01-01T00:00:00Z/1970-01-01T00:01:00Z"
SECOND_TEXT = "1970-01-01T00:01:00Z/1970-01-01T00:02:00.500Z"


@pytest.fixture
async def terminal(cluster: InProcessCluster, capsys: pytest.CaptureFixture[str]) -> Terminal:
    job = cluster.job(
        "windows",
        windowed(declare("maxima")),
        windowed(declare("operator.timers", kind=registration_pb2.TIMER)),
    )
    await job.run(0, {})
    await job.run(
        1,
        {
            "maxima": {"a": Windows({FIRST: 1, SECOND: 2})},
            "operator.timers": {
                "a": Windows(
                    {
                        None: {(Clock.EVENT_TIME, 60_000): True},
                        FIRST: {(Clock.EVENT_TIME, 59_999): True},
                    }
                )
            },
        },
    )
    return Terminal(cluster.servers[0].addresses.proxy, capsys)


async def test_a_window_is_named_as_it_is_printed(terminal: Terminal) -> None:
    ran = await terminal.run("get", "maxima", "a", "--window", SECOND_TEXT)
    assert ran.rows == [["key", "value"], ["a", "2"]]
    as_json = (await terminal.run("get", "maxima", "a", "--window", "0/60000", "--json")).json
    assert (as_json["value"], as_json["window"]) == (1, {"start_ms": 0, "end_ms": 60_000})
    many = (await terminal.run("mget", "maxima", "a", "--window", "0/60000", "--json")).json
    assert many["window"] == {"start_ms": 0, "end_ms": 60_000}
    assert [result["value"] for result in many["results"]] == [1]
    with pytest.raises(InvalidRequestError, match="--window START/END"):
        await terminal.run("get", "maxima", "a")


async def test_all_windows_of_a_key_are_rows(terminal: Terminal) -> None:
    ran = await terminal.run("windows", "maxima", "a")
    assert ran.rows == [["window", "value"], [FIRST_TEXT, "1"], [SECOND_TEXT, "2"]]
    assert ran.lines[-1].startswith("2 windows, batch 1, ")
    assert "watermark 1970-01-01 00:00:00Z" in ran.lines[-1]
    newest = await terminal.run("windows", "maxima", "a", "--newest", "1")
    assert newest.rows[1:] == [[SECOND_TEXT, "2"]]
    late = await terminal.run("windows", "maxima", "a", "--from", "1970-01-01T00:01Z", "--json")
    assert late.json["windows"] == [{"window": SECOND.jsonable(), "value": 2, "remaining_ms": None}]
    early = await terminal.run("windows", "maxima", "a", "--to", "60000")
    assert early.rows[1:] == [[FIRST_TEXT, "1"]]
    none = await terminal.run("windows", "maxima", "nobody")
    assert (none.exit_code, none.rows) == (1, [["window", "value"]])
    with pytest.raises(InvalidRequestError, match="--from 'soon' is invalid"):
        await terminal.run("windows", "maxima", "a", "--from", "soon")


async def test_a_scan_has_the_window_beside_the_key(terminal: Terminal) -> None:
    ran = await terminal.run("scan", "maxima")
    assert ran.rows == [["key", "window", "value"], ["a", FIRST_TEXT, "1"], ["a", SECOND_TEXT, "2"]]
    as_json = (await terminal.run("scan", "maxima", "--json")).json
    assert as_json["keys"][1] == {
        "key": "a",
        "window": SECOND.jsonable(),
        "value": 2,
        "remaining_ms": None,
    }
    keys = await terminal.run("scan", "maxima", "--keys-only")
    assert keys.rows == [["key", "window"], ["a", FIRST_TEXT], ["a", SECOND_TEXT]]
    one = await terminal.run("scan", "maxima", "--window", "0/60000")
    assert one.rows == [["key", "value"], ["a", "1"]]


async def test_timers_are_rows(terminal: Terminal) -> None:
    ran = await terminal.run("get", "operator.timers", "a")
    assert ran.rows == [
        ["clock", "time", "window"],
        ["EVENT_TIME", "1970-01-01T00:00:59.999Z", FIRST_TEXT],
        ["EVENT_TIME", "1970-01-01T00:01:00Z"],
    ]
    as_json = (await terminal.run("get", "operator.timers", "a", "--json")).json
    assert as_json["kind"] == "TIMER"
    assert as_json["value"][0] == {
        "clock": "EVENT_TIME",
        "timestamp_ms": 59_999,
        "window": FIRST.jsonable(),
    }
    scanned = await terminal.run("scan", "operator.timers")
    assert scanned.lines[0].split() == ["key", "timers"]
    assert "EVENT_TIME 1970-01-01T00:01:00Z" in scanned.lines[1]
    states = await terminal.run("states")
    assert ["windows", "operator.timers", "TIMER", "string,", "window"] in states.rows


async def test_explain_prints_window_and_watermark(terminal: Terminal) -> None:
    ran = await terminal.run("explain", "maxima", "a", "--window", "0/60000")
    assert ran.lines[0] == f"window {FIRST_TEXT}"
    assert "watermark 1970-01-01 00:00:00Z" in ran.lines[2]
    as_json = (await terminal.run("explain", "maxima", "a", "--window", "0/60000", "--json")).json
    assert as_json["window"] == FIRST.jsonable()
    assert as_json["info"]["watermark_ms"] == 1
