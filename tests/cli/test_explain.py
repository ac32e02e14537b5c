"""`queryable-state explain`."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.cli.conftest import Terminal


async def test_a_look_up_is_explained_step_by_step(terminal: Terminal) -> None:
    ran = await terminal.run("explain", "last", "sensor_3")
    assert ran.exit_code == 0
    assert ran.lines[0] == "1.5"
    assert ran.lines[1].startswith("batch 1, ")
    assert ran.lines[2].startswith("key group ")
    assert ran.lines[3].startswith("owner executor-")
    assert ran.lines[4].startswith("connection: ")
    assert ran.lines[4].endswith(" frames")
    table = ran.lines[ran.lines.index("") + 1 : -2]
    assert table[0].split() == ["step", "by", "begun", "took", "detail"]
    steps = [line.split("  ")[0] for line in table[1:]]
    assert steps[:3] == ["locate", "batch", "client to server"]
    assert steps[-1] == "read"
    assert "in total" in ran.lines[-1]


async def test_the_explanation_as_json(terminal: Terminal) -> None:
    explained = (await terminal.run("explain", "last", "sensor_3", "--json")).json
    assert (explained["value"], explained["error"], explained["info"]["version"]) == (1.5, None, 1)
    assert explained["owner_id"].startswith("executor-")
    assert explained["hops"] >= 1
    assert {each["transport"] for each in explained["connections"]} == {"frames"}
    assert {each["frame_problem"] for each in explained["connections"]} == {""}
    assert {step["name"] for step in explained["steps"]} >= {"locate", "client to server", "read"}


async def test_a_missing_key_is_explained_too(terminal: Terminal) -> None:
    ran = await terminal.run("explain", "last", "nobody")
    assert ran.exit_code == 1
    assert ran.lines[0].startswith("UNKNOWN_KEY: nothing is stored")
    as_json = await terminal.run("explain", "last", "nobody", "--json")
    assert as_json.json["error"]["reason"] == "UNKNOWN_KEY"
    assert as_json.exit_code == 1


async def test_a_refusal_is_explained_too(terminal: Terminal) -> None:
    ran = await terminal.run("explain", "last", "sensor_1", "--at-least", "9", "--timeout", "2")
    assert ran.exit_code == 2
    assert ran.lines[0].startswith("BEHIND: ")
