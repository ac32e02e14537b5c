"""Commits whose old values are read late: no watch misses their changes."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from typing import TYPE_CHECKING

import pytest
from tests.client.watches.test_watches import next_changes
from tests.waiting import eventually

from queryable_state.server.state_server.watches import job_watches
from queryable_state.server.state_server.watches.old_values import OldValueReads
from queryable_state.server.testing.cluster import InProcessCluster, declare

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from queryable_state.client import QueryableStateClient
    from queryable_state.server.state_server.watches.old_values import Touched
    from queryable_state.server.testing.cluster import InProcessJob

KEYS = ("key_0", "key_1")


class Gates:
    """Reads of old values that wait until the test opens the gate of their batch."""

    def __init__(self) -> None:
        self.open: defaultdict[int, asyncio.Event] = defaultdict(asyncio.Event)
        self.read: set[int] = set()
        """Batches whose old values are read."""


@pytest.fixture
def gates(monkeypatch: pytest.MonkeyPatch) -> Gates:
    """The gates of all batches, closed."""
    gates = Gates()

    class GatedReads(OldValueReads):
        async def run(self) -> Touched:
            batch_id = self._changes[0].batch.batch_id
            await gates.open[batch_id].wait()
            try:
                return await super().run()
            finally:
                gates.read.add(batch_id)

    monkeypatch.setattr(job_watches, "OldValueReads", GatedReads)
    return gates


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[InProcessCluster]:
    """One server, so that a commit is read for all watches at once."""
    async with InProcessCluster(tmp_path) as running:
        yield running


@pytest.fixture
async def job(cluster: InProcessCluster) -> InProcessJob:
    """A job at batch 0 with a value for each key."""
    started = cluster.job(
        "late",
        declare("values", "string", "bigint"),
        declare("others", "string", "bigint"),
        parallelism=4,
    )
    await started.run(0, {"values": dict.fromkeys(KEYS, 0), "others": dict.fromkeys(KEYS, 0)})
    return started


@pytest.mark.parametrize("state", ["values", "others"])
@pytest.mark.parametrize("keys", [["key_1"], None])
async def test_a_watch_opened_behind_a_commit_gets_its_changes(
    job: InProcessJob,
    client: QueryableStateClient,
    gates: Gates,
    state: str,
    keys: list[str] | None,
) -> None:
    async with client.watch("late", "values", keys=["key_0"]) as first:
        await job.run(1, {each: dict.fromkeys(KEYS, 1) for each in ("values", "others")})
        async with client.watch("late", state, keys=keys, after_batch=0) as second:
            gates.open[1].set()
            changes = await next_changes(second, 1 if keys else 2)
        assert {each.key for each in changes} == set(keys or KEYS)
        assert {each.batch for each in changes} == {1}
        await next_changes(first, 1)


async def test_batches_without_a_watch_are_sent_to_the_next_one(
    job: InProcessJob, client: QueryableStateClient, gates: Gates
) -> None:
    async with client.watch("late", "values", keys=["key_0"]):
        await job.run(1, {"values": dict.fromkeys(KEYS, 1)})
    for batch in (2, 3):
        await job.run(batch, {"values": {"key_1": batch}})
    async with client.watch("late", "values", keys=["key_1"], after_batch=0) as second:
        gates.open[1].set()
        changes = await next_changes(second, 3)
    assert [(each.batch, each.new) for each in changes] == [(1, 1), (2, 2), (3, 3)]


async def test_a_batch_that_is_read_before_an_earlier_one_is_sent_behind_it(
    job: InProcessJob, client: QueryableStateClient, gates: Gates
) -> None:
    async with (
        client.watch("late", "values", keys=["key_0"]) as first,
        client.watch("late", "values", keys=["key_1"]) as second,
    ):
        await job.run(1, {"values": {"key_0": 1}})
        await job.run(2, {"values": {"key_1": 2}})
        gates.open[2].set()
        await eventually(lambda: gates.read == {2})
        gates.open[1].set()
        [change] = await next_changes(second, 1)
        assert (change.batch, change.old, change.new) == (2, 0, 2)
        assert [each.batch for each in await next_changes(first, 1)] == [1]
