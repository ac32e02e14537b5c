"""Commit of one batch in all loaded partitions of a query."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from queryable_state.server.native_state.store.changes import described
from queryable_state.server.storage.overlay import Overlay
from queryable_state.wire.errors import InvalidRequestError, Reason

if TYPE_CHECKING:
    from collections.abc import Awaitable, Sequence

    from queryable_state.server.native_state.server.batch_facts import BatchFacts
    from queryable_state.server.native_state.server.served_partition import ServedPartition
    from queryable_state.server.native_state.store.native_store import NativeStore
    from queryable_state.server.state_server.base.thread_pool import ThreadPool
    from queryable_state.server.state_server.stores.job_stores import JobStores
    from queryable_state.server.storage.store import StateStore

# Larger batches are described for watched states only: it costs a read of each changed key.
_DESCRIBED_RECORDS = 512
# Larger batches of a partition are never described, so that no commit waits long for watches.
_MOST_DESCRIBED_RECORDS = 65_536


async def commit_batch(
    job: JobStores,
    facts: BatchFacts,
    partitions: Sequence[ServedPartition],
    prepared: Sequence[Overlay | StateStore],
    threads: ThreadPool,
) -> None:
    """Makes a batch visible in all partitions in one turn of the loop.

    `prepared` has the raw changes of each partition, or a store of its raw records. If it fails,
    every partition is as before, and the stores of `prepared` are left to `take_retired`.
    """
    try:
        for each, found in zip(partitions, prepared, strict=True):
            if isinstance(found, Overlay):
                each.store.seal(facts.batch, found, (0, facts.batch))
            else:
                each.store.replace(facts.batch, found)
        undescribed = await _describe(job, partitions, prepared, threads)
    except BaseException:
        for each in partitions:
            each.store.discard_staged()
        raise
    job.commit(facts.batch, facts.commit_time_ms, facts.watermark_ms)
    for each in partitions:
        if not each.operator.placed_by_hash:
            # Their entries have the partition of the hash, changes have the one that Spark chose.
            for state_id in each.operator.registrations:
                job.records[state_id].clear()
    for each in undescribed:
        assert each.subtask is not None
        each.subtask.history.lost(facts.batch)
        for state_id in each.operator.registrations:
            job.records[state_id].clear()


async def _describe(
    job: JobStores,
    partitions: Sequence[ServedPartition],
    prepared: Sequence[Overlay | StateStore],
    threads: ThreadPool,
) -> list[ServedPartition]:
    """Describes the changes of small batches and of watched states; returns the others.

    Among these are partitions with a changed key whose reads are refused, since nothing else of
    the batch is: watches of them get a gap.
    """
    watched = job.watches.state_ids
    undescribed: list[ServedPartition] = []
    describing: list[ServedPartition] = []
    described_all: list[Awaitable[bool]] = []
    for each, found in zip(partitions, prepared, strict=True):
        if not isinstance(found, Overlay):
            undescribed.append(each)
        elif not found.record_count:
            continue
        elif found.record_count > _MOST_DESCRIBED_RECORDS or (
            found.record_count > _DESCRIBED_RECORDS
            and watched.isdisjoint(each.operator.registrations)
        ):
            undescribed.append(each)
        else:
            describing.append(each)
            described_all.append(threads.run(_describe_changes, each.store, found))
    done = await asyncio.gather(*described_all)
    return undescribed + [
        each for each, is_described in zip(describing, done, strict=True) if not is_described
    ]


def _describe_changes(store: NativeStore, changes: Overlay) -> bool:
    """False if the reads of a changed key are refused."""
    try:
        store.describe(described(store, changes, store.layouts))
    except InvalidRequestError as refusal:
        if refusal.reason != Reason.UNSUPPORTED:
            raise
        return False
    return True
