"""`queryable-state watch`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from queryable_state.server.testing.cluster import InProcessCluster, declare

if TYPE_CHECKING:
    from tests.cli.conftest import Terminal


async def test_changes_are_lines(terminal: Terminal, cluster: InProcessCluster) -> None:
    job = cluster.job("watched", declare("level", "string", "bigint"))
    await job.run(0, {"level": {"a": 1, "b": 1}})
    await job.run(1, {"level": {"a": 2, "b": None}})
    ran = await terminal.run("watch", "level", "a", "--after-batch", "-1", "--limit", "2")
    assert ran.exit_code == 0
    assert [line.split() for line in ran.lines] == [
        ["batch", "change", "key", "old", "new"],
        ["0", "PUT", "a", "1"],
        ["1", "PUT", "a", "1", "2"],
    ]
    ran = await terminal.run(
        "watch", "level", "--prefix", "b", "--after-batch", "0", "--limit", "1", "--json"
    )
    entry = json.loads(ran.lines[0])
    assert (entry["kind"], entry["key"], entry["old"]) == ("DELETE", "b", 1)


async def test_options_may_stand_between_the_state_and_its_keys(
    terminal: Terminal, cluster: InProcessCluster
) -> None:
    job = cluster.job("watched", declare("level", "string", "bigint"))
    await job.run(0, {"level": {"a": 1, "b": 1}})
    ran = await terminal.run("watch", "level", "--after-batch", "-1", "--limit", "1", "b")
    assert ran.lines[1].split() == ["0", "PUT", "b", "1"]
