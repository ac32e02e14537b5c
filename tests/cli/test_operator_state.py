"""`queryable-state operator-state`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from queryable_state.client import InvalidRequestError
from queryable_state.server.testing.cluster import InProcessCluster, InProcessJob, declare
from queryable_state.v1 import registration_pb2

if TYPE_CHECKING:
    from tests.cli.conftest import Terminal


@pytest.fixture
async def operators(cluster: InProcessCluster) -> InProcessJob:
    started = cluster.job(
        "operators",
        declare("offsets", value_type="bigint", kind=registration_pb2.OPERATOR_LIST),
        declare(
            "rules", value_type="double", kind=registration_pb2.BROADCAST, map_key_type="string"
        ),
    )
    rules = {"high": 9.0}
    await started.run(0, {"offsets": {0: [1, 2], 1: [3]}, "rules": {0: rules, 1: rules}})
    return started


async def test_the_elements_are_rows_by_subtask(
    terminal: Terminal, operators: InProcessJob
) -> None:
    assert operators.name
    ran = await terminal.run("operator-state", "offsets")
    assert ran.exit_code == 0
    assert ran.rows[:4] == [["subtask", "value"], ["0", "1"], ["0", "2"], ["1", "3"]]
    assert ran.lines[5] == "3 elements of 2 subtasks"
    ran = await terminal.run("operator-state", "rules", "--subtask", "1")
    assert ran.rows[:2] == [["subtask", "map", "key", "value"], ["1", "high", "9.0"]]


async def test_the_state_as_json_has_each_subtask(
    terminal: Terminal, operators: InProcessJob
) -> None:
    ran = await terminal.run("operator-state", "offsets", "--one-cut", "--json")
    assert (ran.json["kind"], ran.json["version"]) == ("OPERATOR_LIST", 0)
    subtasks = ran.json["subtasks"]
    assert [(each["subtask"], each["value"]) for each in subtasks] == [(0, [1, 2]), (1, [3])]
    assert ran.json["job_id"] == operators.job_id


async def test_one_broadcast_entry_is_read_with_get(
    terminal: Terminal, operators: InProcessJob
) -> None:
    ran = await terminal.run("get", "rules", "0", "--map-key", "high", "--job", operators.name)
    assert ran.rows == [["value"], ["9.0"]]


async def test_a_keyed_state_is_refused(terminal: Terminal) -> None:
    with pytest.raises(InvalidRequestError, match="get_kv_state"):
        await terminal.run("operator-state", "last")
