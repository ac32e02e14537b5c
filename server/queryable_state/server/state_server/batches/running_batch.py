"""A batch that tasks run, as the coordinator told of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from queryable_state.internal.v1 import coordinator_pb2
    from queryable_state.server.state_server.base.job_files import JobFiles


class RunningBatch(NamedTuple):
    """The coordinator's clocks of a batch, and access to the job's files."""

    key: tuple[bytes, int]
    """Run and batch id."""
    clocks: coordinator_pb2.BeginBatchResponse
    files: JobFiles | None

    def watermark_ms(self, depth: int) -> int:
        """The watermark of an operator at a depth: that of the batch `depth` batches ago."""
        watermarks_ms = self.clocks.watermarks_ms
        return watermarks_ms[min(depth, len(watermarks_ms) - 1)] if watermarks_ms else 0
