"""Reports of the stream engine on batches and failed runs."""

from __future__ import annotations

from dataclasses import dataclass

from queryable_state.v1 import status_pb2


@dataclass(frozen=True, kw_only=True)
class SourceReport:
    """The part of one source in a batch."""

    description: str
    """As the engine describes the source."""
    rows: int
    rows_per_s: float
    """Rows that arrived in a second."""
    backlog: int = 0
    """What waits in the source after the batch, in `backlog_unit`; of files at least so many."""
    backlog_unit: str = ""
    """"rows", "files" or "bytes"; empty: the source does not tell."""


@dataclass(frozen=True, kw_only=True)
class BatchReport:
    """A finished batch, as the engine reports it."""

    batch_id: int
    ended_at_ms: int
    """Milliseconds since the epoch."""
    duration_ms: int
    """From its trigger to its end."""
    rows: int
    input_rows_per_s: float
    processed_rows_per_s: float
    sources: tuple[SourceReport, ...] = ()
    """In the order of the batch's offsets."""


@dataclass(frozen=True, kw_only=True)
class RunFailure:
    """The cause of a failed run, without the engine's wrapping errors."""

    message: str
    reason: str = ""
    """Name of our reason; empty: it is not an error of this package."""
    operator: str = ""
    key_json: str = ""
    record: str = ""
    batch_id: int = -1
    traceback: str = ""
    """Of the user's function; empty: unknown."""

    def to_proto(self) -> status_pb2.JobError:
        """The error without its run, time and count."""
        return status_pb2.JobError(
            message=self.message,
            reason=self.reason,
            operator=self.operator,
            key_json=self.key_json,
            record=self.record,
            batch_id=self.batch_id,
            traceback=self.traceback,
        )
