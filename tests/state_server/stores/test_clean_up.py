"""Background clean-up after commits, and clean-up of canonical snapshots."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest
from tests.state_server.owner import (
    KEYS,
    MAX_PARALLELISM,
    PARALLELISM,
    QUERY_ID,
    STATE_ID,
    VALUES,
    ManualClock,
    Owner,
)
from tests.waiting import eventually

from queryable_state.server.checkpoint.canonical import CanonicalWriter, read_canonical
from queryable_state.server.state_server.snapshots.live_records import (
    LiveRecords,
    removable_values,
)
from queryable_state.server.state_server.stores.clean_up import MARGIN_MS, CleanUp
from queryable_state.server.state_server.stores.compactor import Compactor
from queryable_state.server.state_server.stores.owned_subtask import CleanUpPass
from queryable_state.v1.registration_pb2 import StateRegistration, TimeToLive
from queryable_state.wire.keys.key_groups import subtask_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

TTL_MS = 1_000
GONE_FOR_SURE_MS = TTL_MS + MARGIN_MS


class Batches:
    """Batches of an owner of subtask 0, compacted and cleaned up to the committed one."""

    def __init__(self, owner: Owner) -> None:
        self.owner = owner
        self.job = owner.table.job_or_new(QUERY_ID)
        self.compactor = Compactor(owner.table, owner.background, chunk_records=1_000)

    async def run(self, batch_id: int, values: dict[str, int]) -> None:
        now_ms = self.owner.clock.now_ms
        self.job.begin_batch(batch_id, now_ms)
        self.owner.seal(batch_id, values, timestamp_ms=now_ms)
        self.owner.commit(batch_id)
        await self.clean()

    async def clean(self) -> None:
        [subtask] = self.job.subtasks.values()
        await self.compactor.compact_to(subtask, self.job.committed_version)
        await CleanUp(self.owner.table, self.owner.background).run(self.job, subtask)

    def stored(self) -> int:
        [subtask] = self.job.subtasks.values()
        return len(subtask.store.prefix(STATE_ID, b""))


@pytest.fixture(params=["heap", "rocksdb"])
async def owner(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Owner]:
    running = Owner(request.param, tmp_path / "owned", ManualClock())
    running.registration.ttl.ttl_ms = TTL_MS
    yield running
    await running.aclose()


def of_subtask(owner: Owner, count: int) -> dict[str, int]:
    """Values of keys that belong to subtask 0."""
    names = (f"k{number}" for number in range(100 * count))
    mine = (n for n in names if subtask_of(KEYS.of(n), PARALLELISM, MAX_PARALLELISM) == 0)
    return {next(mine): number for number in range(count)}


async def test_commits_clean_up_as_many_records_as_the_state_says(owner: Owner) -> None:
    owner.registration.ttl.visits_per_commit = 30
    owner.own(0)
    batches = Batches(owner)
    await batches.run(0, of_subtask(owner, 100))
    owner.clock.advance(GONE_FOR_SURE_MS / 1000)
    # Batch 0 has visited the first 30; batch 3 comes to the end, batch 4 begins anew.
    for batch_id, left in ((1, 70), (2, 40), (3, 30), (4, 0)):
        await batches.run(batch_id, {})
        assert batches.stored() == left


async def test_the_compactor_cleans_up_whenever_it_has_compacted(owner: Owner) -> None:
    owner.registration.ttl.visits_per_commit = 1_000
    owner.own(0)
    batches = Batches(owner)
    await batches.run(0, of_subtask(owner, 10))
    owner.clock.advance(GONE_FOR_SURE_MS / 1000)
    batches.job.begin_batch(1, owner.clock.now_ms)
    owner.commit(1)
    batches.job.stable_version = 1
    running = asyncio.create_task(batches.compactor.run())
    batches.compactor.wake()
    await eventually(lambda: batches.stored() == 0)
    running.cancel()
    with suppress(asyncio.CancelledError):
        await running


async def test_changes_pay_for_visits(owner: Owner) -> None:
    owner.registration.ttl.visits_per_change = 5
    owner.own(0)
    batches = Batches(owner)
    values = of_subtask(owner, 50)
    await batches.run(0, values)
    owner.clock.advance(GONE_FOR_SURE_MS / 1000)
    await batches.run(1, {})
    assert batches.stored() == 50
    # Four changes pay for 20 visits, which begin anew: batch 0 came to the end.
    await batches.run(2, dict(list(values.items())[:4]))
    assert 50 - 20 <= batches.stored() <= 50 - 20 + 4


async def test_a_pass_begins_once_a_value_may_be_removed(owner: Owner) -> None:
    """A pass that would find nothing costs nothing."""
    owner.registration.ttl.visits_per_commit = 1_000
    owner.own(0)
    batches = Batches(owner)
    values = of_subtask(owner, 10)
    written_ms = owner.clock.now_ms
    await batches.run(0, values)
    [subtask] = batches.job.subtasks.values()
    assert subtask.passes[STATE_ID] == CleanUpPass(None, written_ms)
    owner.clock.advance((GONE_FOR_SURE_MS - 1) / 1000)
    await batches.run(1, {next(iter(values)): 1})
    assert subtask.passes[STATE_ID] == CleanUpPass(None, written_ms)
    owner.clock.advance(0.001)
    await batches.run(2, {})
    assert batches.stored() == 1
    assert subtask.passes[STATE_ID] == CleanUpPass(None, owner.clock.now_ms - 1)


async def test_without_strategies_nothing_is_cleaned_up(owner: Owner) -> None:
    owner.own(0)
    batches = Batches(owner)
    await batches.run(0, of_subtask(owner, 10))
    owner.clock.advance(10 * GONE_FOR_SURE_MS / 1000)
    await batches.run(1, {})
    assert batches.stored() == 10


async def test_clean_up_judges_by_the_oldest_version_that_readers_may_be_at(owner: Owner) -> None:
    """A snapshot holds batch 0 while batch 1, by whose time the values are gone, is committed."""
    owner.registration.ttl.visits_per_commit = 1_000
    owner.own(0)
    batches = Batches(owner)
    await batches.run(0, of_subtask(owner, 10))
    owner.clock.advance(GONE_FOR_SURE_MS / 1000)
    batches.job.held_versions.append(0)
    batches.job.begin_batch(1, owner.clock.now_ms)
    owner.seal(1, {}, timestamp_ms=None)
    owner.commit(1)
    [subtask] = batches.job.subtasks.values()
    await CleanUp(owner.table, owner.background).run(batches.job, subtask)
    assert batches.stored() == 10
    batches.job.held_versions.clear()
    await batches.run(2, {})
    assert batches.stored() == 0


def test_a_canonical_snapshot_leaves_out_gone_values_if_the_state_says_so(tmp_path: Path) -> None:
    states = {
        number: StateRegistration(state_id=number, ttl=ttl)
        for number, ttl in {
            1: TimeToLive(ttl_ms=TTL_MS, clean_snapshots=True),
            2: TimeToLive(ttl_ms=TTL_MS),
            3: None,
        }.items()
    }
    now_ms = 10 * GONE_FOR_SURE_MS
    gone = VALUES.encode(1, now_ms - GONE_FOR_SURE_MS)
    live = VALUES.encode(2, now_ms - GONE_FOR_SURE_MS + 1)
    records = [(b"\x00\x00a\x00", gone), (b"\x00\x00b\x00", live), (b"\x00\x00c\x00", b"\x00\x01")]
    with CanonicalWriter(tmp_path / "state") as writer:
        filtered = LiveRecords(writer, removable_values(states, now_ms))
        for state_id in states:
            filtered.add(state_id, records)
    written = dict(read_canonical(tmp_path / "state", 0, 127))
    assert written == {1: records[1:], 2: records, 3: records}
    assert removable_values(states, None) == {}
