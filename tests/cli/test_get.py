"""`queryable-state get`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from queryable_state.client import (
    InvalidRequestError,
    KeyTypeError,
    Reason,
    RetryLaterError,
    UnknownJobError,
    UnknownKeyOrNamespaceError,
    UnknownStateError,
)
from queryable_state.server.testing.changes import NULL

if TYPE_CHECKING:
    from tests.cli.conftest import Terminal

    from queryable_state.server.testing.cluster import InProcessJob


async def test_a_value_is_a_row_and_the_line_below_says_its_batch(terminal: Terminal) -> None:
    ran = await terminal.run("get", "last", "sensor_1")
    assert ran.exit_code == 0
    assert ran.rows == [["key", "value"], ["sensor_1", "0.5"]]
    assert ran.lines[-1].startswith("batch 1, committed 20")
    assert "from owner executor-" in ran.lines[-1]


async def test_a_value_as_json_says_all_there_is_to_know(
    terminal: Terminal, job: InProcessJob
) -> None:
    ran = await terminal.run("get", "last", "sensor_1", "--json", "--job", job.job_id)
    info = ran.json.pop("info")
    assert ran.json | {"info": None} == {
        "job": "sensors",
        "job_id": job.job_id,
        "state": "last",
        "kind": "VALUE",
        "key": "sensor_1",
        "status": "found",
        "value": 0.5,
        "remaining_ms": None,
        "info": None,
    }
    assert (info["version"], info["complete_since_batch"], info["checkpoint"]) == (1, 0, "")
    assert info["role"] in ("OWNER", "PROXY")
    assert info["server_id"].startswith("executor-")


async def test_a_null_entry_is_found_and_shown_as_null(
    terminal: Terminal, job: InProcessJob
) -> None:
    await job.run(2, {"counts": {"sensor_1": {"n": NULL}}})
    entry = await terminal.run("get", "counts", "sensor_1", "--map-key", "n")
    assert (entry.exit_code, entry.rows) == (0, [["value"], ["null"]])
    as_json = (await terminal.run("get", "counts", "sensor_1", "--map-key", "n", "--json")).json
    assert (as_json["status"], as_json["value"]) == ("found", None)
    exists = await terminal.run("get", "counts", "sensor_1", "--map-key", "n", "--exists")
    assert (exists.exit_code, exists.lines[0]) == (0, "true")
    whole = await terminal.run("get", "counts", "sensor_1")
    assert whole.rows[1:] == [["n", "null"], ["x", "1"], ["y", "2"]]
    whole = await terminal.run("get", "counts", "sensor_1", "--json")
    assert whole.json["value"] == {"n": None, "x": 1, "y": 2}


async def test_fields_of_keys_and_values_are_columns(terminal: Terminal) -> None:
    ran = await terminal.run("get", "trips", '["AA", 1]')
    assert ran.rows[0] == ["key[0]", "key[1]", "count", "note"]
    assert ran.rows[1] == ["AA", "1", "10", "on", "time"]
    as_json = (await terminal.run("get", "trips", '["AA", 1]', "--json")).json
    assert (as_json["key"], as_json["value"]) == (["AA", 1], {"count": 10, "note": "on time"})


async def test_maps_and_lists_have_a_row_an_entry_or_element(terminal: Terminal) -> None:
    assert (await terminal.run("get", "counts", "sensor_1")).rows == [
        ["map", "key", "value"],
        ["x", "1"],
        ["y", "2"],
    ]
    # What would move a terminal's cursor is printed as JSON has it.
    assert (await terminal.run("get", "seen", "sensor_1")).rows == [["value"], ["a"], ['"b\\n"']]
    counts = await terminal.run("get", "counts", "sensor_1", "--json")
    assert counts.json["value"] == {"x": 1, "y": 2}
    assert (await terminal.run("get", "seen", "sensor_1", "--json")).json["value"] == ["a", "b\n"]


async def test_one_entry_of_a_map(terminal: Terminal) -> None:
    ran = await terminal.run("get", "counts", "sensor_1", "--map-key", "y")
    assert ran.rows == [["value"], ["2"]]
    as_json = (await terminal.run("get", "counts", "sensor_1", "--map-key", "y", "--json")).json
    assert (as_json["map_key"], as_json["value"]) == ("y", 2)
    with pytest.raises(UnknownKeyOrNamespaceError):
        await terminal.run("get", "counts", "sensor_1", "--map-key", "z")
    with pytest.raises(InvalidRequestError, match="only a MAP") as raised:
        await terminal.run("get", "last", "sensor_1", "--map-key", "z")
    assert raised.value.reason == Reason.UNSUPPORTED


async def test_presence_and_size_move_no_value(terminal: Terminal) -> None:
    present = await terminal.run("get", "seen", "sensor_1", "--exists")
    assert (present.exit_code, present.rows) == (0, [["true"]])
    absent = await terminal.run("get", "seen", "sensor_2", "--exists", "--json")
    assert absent.exit_code == 1
    assert (absent.json["status"], absent.json["value"]) == ("missing", False)
    entry = await terminal.run("get", "counts", "sensor_1", "--exists", "--map-key", "x")
    assert (entry.exit_code, entry.rows) == (0, [["true"]])
    size = await terminal.run("get", "counts", "sensor_1", "--size")
    assert size.rows[0] == ["elements", "value_bytes"]
    assert size.rows[1][0] == "2"
    assert (await terminal.run("get", "seen", "sensor_1", "--size", "--json")).json["value"][
        "elements"
    ] == 2
    with pytest.raises(InvalidRequestError, match="omit --map-key"):
        await terminal.run("get", "counts", "sensor_1", "--size", "--map-key", "x")


async def test_a_missing_key_says_of_which_batch(terminal: Terminal) -> None:
    with pytest.raises(UnknownKeyOrNamespaceError, match="'nobody'"):
        await terminal.run("get", "last", "nobody", "--json")
    printed = json.loads(terminal.printed())
    assert (printed["status"], printed["value"]) == ("missing", None)
    assert printed["info"]["version"] == 1


async def test_which_batches_may_answer(terminal: Terminal, job: InProcessJob) -> None:
    await job.seal(2, {"last": {"sensor_1": -1.0}})
    committed = await terminal.run("get", "last", "sensor_1", "--at-least", "1", "--json")
    assert (committed.json["value"], committed.json["info"]["version"]) == (0.5, 1)
    uncommitted = await terminal.run("get", "last", "sensor_1", "--uncommitted")
    assert uncommitted.rows[1] == ["sensor_1", "-1.0"]
    assert "batch 2, not committed" in uncommitted.lines[-1]
    with pytest.raises(RetryLaterError):
        await terminal.run("get", "last", "sensor_1", "--at-least", "9", "--timeout", "2")


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        (["lost", "sensor_1"], UnknownStateError, "known: counts, last, seen, trips"),
        (["last", "sensor_1", "--job", "nobody"], UnknownJobError, "nobody"),
        (["trips", "AA"], InvalidRequestError, r'written as in \["sensor_1", 7\]'),
        (["trips", '["AA", "x"]'], KeyTypeError, "int"),
        (["last", "sensor_1", "--within", "-1"], InvalidRequestError, "above 0"),
        (["last", "sensor_1", "--timeout", "0"], InvalidRequestError, "above 0"),
        (["last", "sensor_1", "--window", "today"], InvalidRequestError, "START/END"),
        (["last", "sensor_1", "--window", "0/10"], InvalidRequestError, "has no windows"),
        (["last", "sensor_1", "--job", ""], InvalidRequestError, "job"),
    ],
)
async def test_what_cannot_work_is_refused(
    terminal: Terminal, arguments: list[str], error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=text):
        await terminal.run("get", *arguments)


async def test_a_slice_shows_its_elements_and_where_they_are(
    terminal: Terminal, job: InProcessJob
) -> None:
    await job.run(2, {"seen": {"sensor_2": list("abcdef")}})
    last = await terminal.run("get", "seen", "sensor_2", "--slice=-2:")
    assert last.rows == [["value"], ["e"], ["f"], ["elements", "4", "to", "5", "of", "6"]]
    middle = await terminal.run("get", "seen", "sensor_2", "--slice", "1:3", "--json")
    assert (middle.json["value"], middle.json["start"]) == (["b", "c"], 1)
    assert (middle.json["limit"], middle.json["length"]) == (2, 6)
    behind = await terminal.run("get", "seen", "sensor_2", "--slice", "6:")
    assert (behind.exit_code, behind.rows) == (0, [["value"], ["none", "of", "6", "elements"]])


@pytest.mark.parametrize("text", ["3", "a:b", "2:1", "1:-1", ":-1", "-1:1", "1:1"])
async def test_a_slice_that_is_none_is_refused(terminal: Terminal, text: str) -> None:
    with pytest.raises(InvalidRequestError, match=f"--slice {text}: "):
        await terminal.run("get", "seen", "sensor_1", f"--slice={text}")


async def test_a_slice_is_read_alone(terminal: Terminal) -> None:
    for other in (["--size"], ["--exists"], ["--map-key", "x"]):
        with pytest.raises(InvalidRequestError, match="--slice reads elements: omit"):
            await terminal.run("get", "seen", "sensor_1", "--slice", "0:1", *other)
