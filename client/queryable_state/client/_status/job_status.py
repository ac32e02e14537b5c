"""Status of a job, as `describe_job` returns it.

Times are milliseconds since the epoch, 0: never.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from queryable_state.client._status.messages import name_of, scalars
from queryable_state.v1 import status_pb2

if TYPE_CHECKING:
    from typing import Self


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """One fact that needs attention, and what to do."""

    code: str
    """For programs: JOB_FAILED, SERVER_LOST, ...; docs/status.md lists all."""
    severity: str
    """WARNING or ERROR."""
    since_ms: int
    message: str
    next_step: str


@dataclass(frozen=True, kw_only=True, slots=True)
class EndedFinding:
    """A finding that is over."""

    code: str
    severity: str
    """WARNING or ERROR."""
    began_ms: int
    ended_ms: int
    message: str
    """Its last words."""


@dataclass(frozen=True, kw_only=True, slots=True)
class JobError:
    """The failure of one run of a job."""

    at_ms: int
    message: str
    """The root cause, without the wrapping errors of Spark."""
    reason: str
    """Name of the reason; empty: not an error of this package."""
    operator: str
    """Empty: unknown, as the next fields."""
    key_json: str
    record: str
    batch_id: int
    """-1: unknown."""
    traceback: str
    count: int
    """Runs in a row that failed like this."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CheckpointSummary:
    """One attempt at a checkpoint or savepoint."""

    checkpoint_id: int
    savepoint: bool
    outcome: str
    """COMPLETED, FAILED or DECLINED."""
    batch_id: int
    at_ms: int
    duration_ms: int
    bytes: int
    new_bytes: int
    path: str
    failure: str

    @classmethod
    def from_proto(cls, message: status_pb2.CheckpointSummary) -> Self:
        """Converts the wire message."""
        outcome = name_of(status_pb2.CheckpointSummary.Outcome, message.outcome)
        return cls(**scalars(cls, message) | {"outcome": outcome})


@dataclass(frozen=True, kw_only=True, slots=True)
class SnapshotProgress:
    """A checkpoint or savepoint that is being written."""

    savepoint: bool
    path: str
    ranges_done: int
    """Ranges of key groups that are written, of `ranges`."""
    ranges: int


@dataclass(frozen=True, kw_only=True, slots=True)
class CheckpointStatus:
    """Checkpoints of a job."""

    durable: bool
    root: str
    interval_ms: int
    last_completed: CheckpointSummary | None
    newest: tuple[CheckpointSummary, ...]
    """Attempts in this driver, newest first."""
    failures: int
    last_failure: str
    last_failure_at_ms: int
    failures_in_a_row: int
    running: SnapshotProgress | None

    @classmethod
    def from_proto(cls, message: status_pb2.CheckpointStatus) -> Self:
        """Converts the wire message."""
        last = message.last_completed if message.HasField("last_completed") else None
        running = message.running if message.HasField("running") else None
        return cls(
            **scalars(cls, message)
            | {
                "last_completed": None if last is None else CheckpointSummary.from_proto(last),
                "newest": tuple(map(CheckpointSummary.from_proto, message.newest)),
                "running": (
                    None
                    if running is None
                    else SnapshotProgress(**scalars(SnapshotProgress, running))
                ),
            }
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class BatchTimes:
    """Durations of the newest batch that Spark has reported, in milliseconds."""

    batch_id: int
    ended_at_ms: int
    batch_ms: int
    commit_ms: int
    """From its commit by Spark to the answers of all state servers."""
    lag_ms: int
    """From the end of the batch until queries see it."""
    running_batch_id: int
    """-1: none."""
    running_since_ms: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Rates:
    """Rows of the newest batch, and a second."""

    rows: int
    rows_per_s: float
    """Of the batches of the last minute."""
    input_rows_per_s: float
    """Of the newest batch, as Spark reports them: since the trigger before."""
    processed_rows_per_s: float
    """Of the newest batch, as Spark reports them: while the batch ran."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Watermark:
    """The event-time watermark of a job."""

    watermark_ms: int
    moved_at_ms: int
    rows_since: int
    """Rows that arrived since it last moved."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SourceStatus:
    """A source of a job."""

    description: str
    rows: int
    input_rows_per_s: float
    last_rows_at_ms: int
    """The newest batch with rows of it."""
    backlog: int
    """What waited in it after the newest batch, in `backlog_unit`; of files at least so many."""
    backlog_unit: str
    """"rows", "files" or "bytes"; empty: the source does not tell."""


@dataclass(frozen=True, kw_only=True, slots=True)
class KeyGroupOwner:
    """A run of key groups with one owner."""

    first_key_group: int
    last_key_group: int
    server_id: str
    """Empty: no server owns them now."""
    open: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class OperatorStatus:
    """A stateful operator of a job."""

    uid: str
    name: str
    depth: int
    states: tuple[str, ...]
    parallelism: int
    max_parallelism: int
    owners: tuple[KeyGroupOwner, ...]

    @classmethod
    def from_proto(cls, message: status_pb2.OperatorStatus) -> Self:
        """Converts the wire message."""
        owners = tuple(KeyGroupOwner(**scalars(KeyGroupOwner, owner)) for owner in message.owners)
        return cls(**scalars(cls, message) | {"states": tuple(message.states), "owners": owners})


@dataclass(frozen=True, kw_only=True, slots=True)
class RestoreProgress:
    """A subtask whose stored state its owner is loading."""

    operator_uid: str
    first_key_group: int
    last_key_group: int
    server_id: str
    started_at_ms: int
    """0: not known yet."""
    bytes_done: int
    """Bytes of files that are read, of `bytes`."""
    bytes: int
    """0: not known yet."""


@dataclass(frozen=True, kw_only=True, slots=True)
class HistoryPoint:
    """One batch of the last hour, or several that were thinned out."""

    at_ms: int
    batch_id: int
    rows: int
    batch_ms: int
    commit_ms: int
    watermark_ms: int
