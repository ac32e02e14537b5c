"""Facts of one committed batch: times, watermarks and settings, from the logs of Spark."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

from queryable_state.server.native_state.files.outcomes import of_committed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from queryable_state.server.native_state.files.checkpoint_logs import (
        CommitEntry,
        OffsetsEntry,
    )
    from queryable_state.server.native_state.files.query_checkpoint import QueryCheckpoint
    from queryable_state.server.native_state.server.served_partition import ServedPartition
    from queryable_state.server.state_server.base.thread_pool import ThreadPool

PARTITIONS = "spark.sql.shuffle.partitions"
"""The setting with the number of state partitions, which Spark records with each batch."""

STRICT_DISTRIBUTION = "spark.sql.streaming.statefulOperator.useStrictDistribution"
"""The setting that places keys by the hash of the whole key; an absent one means false."""


@dataclass(frozen=True, slots=True)
class BatchFacts:
    """One committed batch, as the commit log and the offset log describe it."""

    batch: int

    commit_time_ms: int
    """When Spark wrote the commit, by the file system's clock."""

    watermark_ms: int
    """The event-time watermark of the batch; 0: none."""

    timestamp_ms: int
    """Spark's timestamp of the batch, by which its values expire."""

    conf: Mapping[str, str]
    """The settings that Spark recorded with the batch."""

    entry: CommitEntry

    @classmethod
    def of(cls, checkpoint: QueryCheckpoint, batch: int) -> BatchFacts:
        """Reads the logs; raises as `QueryCheckpoint.commit`. Blocking."""
        entry = checkpoint.commit(batch)
        with of_committed(batch):
            offsets = checkpoint.offsets(batch)
        return cls._of(entry, offsets, checkpoint.commit_time_ms(batch))

    @classmethod
    async def behind(
        cls, entry: CommitEntry, checkpoint: QueryCheckpoint, threads: ThreadPool
    ) -> BatchFacts:
        """Completes a commit entry from the other logs, read in parallel; raises as `of`."""
        with of_committed(entry.batch):
            offsets, commit_time_ms = await asyncio.gather(
                threads.run(checkpoint.offsets, entry.batch),
                threads.run(checkpoint.commit_time_ms, entry.batch),
            )
        return cls._of(entry, offsets, commit_time_ms)

    @classmethod
    def _of(cls, entry: CommitEntry, offsets: OffsetsEntry, commit_time_ms: int) -> BatchFacts:
        return cls(
            entry.batch,
            commit_time_ms,
            offsets.watermark_ms,
            offsets.timestamp_ms,
            offsets.conf,
            entry,
        )

    def ids(self, partition: ServedPartition) -> list[str | None]:
        """The unique id of each source of a partition in this batch; None in format v1."""
        operator = partition.operator
        return [
            self.entry.unique_id(operator.operator_id, partition.index, source)
            for source in range(operator.sources)
        ]
