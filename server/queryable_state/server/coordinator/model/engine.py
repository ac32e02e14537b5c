"""Interface of the stream engine (Spark) to the coordinator."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from queryable_state.internal.v1.checkpoint_pb2 import EngineProgress
    from queryable_state.server.checkpoint.file_systems.storage import CheckpointStorage
    from queryable_state.wire.errors import QueryableStateError


@dataclass(frozen=True, kw_only=True)
class QueryInfo:
    """One streaming query as the stream engine reports it."""

    name: str
    """The user's name for the query; empty: none."""
    run_id: bytes
    """16 bytes: the newest run. A task of any other run is fenced."""
    active: bool
    """Whether that run can still begin batches."""
    error: str | None = None
    """Why the run failed; None while active or when it ended by itself or was stopped."""
    checkpoint_location: str = ""
    """URI of Spark's checkpoint of the query; empty: it has no durable one."""


@dataclass(frozen=True, kw_only=True)
class BatchClocks:
    """The time of one batch, the same whenever the batch is replayed."""

    timestamp_ms: int
    """Milliseconds since the epoch at which the batch was planned."""
    watermark_ms: int
    """Event-time watermark in milliseconds; 0: none; 2**63 - 1: the input has ended."""
    offsets_digest: bytes
    """Digest of the offsets of the batch; differs when a checkpoint was rewound."""
    clock_ids: tuple[str, ...] = ()
    """Ids of the marker sources that planned the batch with the other sources; none: the query has
    no marker source."""


class Engine(Protocol):
    """The stream engine.

    Called from several threads at once, never inside a transaction of the coordinator's state. A
    call may take milliseconds. Ids have 16 bytes. Methods raise `QueryableStateError` only; other
    exceptions are logged as defects.
    """

    def query(self, query_id: bytes) -> QueryInfo | None:
        """The query of this id, also after it ended; None: unknown."""
        ...

    def clocks(self, query_id: bytes, batch_id: int) -> BatchClocks:
        """The clocks of a batch that is planned, running or committed.

        Raises `RetryLaterError` if the offsets of the batch cannot be read now, `JobError` if
        they do not exist any more.
        """
        ...

    def is_committed(self, query_id: bytes, batch_id: int) -> bool:
        """Whether Spark has durably committed the batch. Polled while a batch is in flight."""
        ...

    def newest_commit(self, query_id: bytes) -> int:
        """The newest batch that Spark has durably committed; -1: none.

        Raises `RetryLaterError` if that cannot be read now.
        """
        ...

    def has_input(self, query_id: bytes, batch_id: int, sources: Sequence[int]) -> bool:
        """Whether a planned batch has input of any of these sources; none named: of any source.

        Sources are positions in the offsets of the batch. The input may have no rows. A marker
        source has no input.
        Raises `RetryLaterError` if the offsets cannot be read now, `JobError` if they do not exist
        any more.
        """
        ...

    def is_planned(self, query_id: bytes, batch_id: int) -> bool:
        """Whether the offsets of the batch are durable; `clocks` has an answer then."""
        ...

    def live_executors(self) -> int:
        """Executors that can run tasks, at least 1; asked for often, so the engine caches it."""
        ...

    def start_servers(self) -> None:
        """Starts a state server on each executor that has none.

        Returns at once, and may be called again meanwhile. Logs failures.
        """
        ...

    def stop_query(self, query_id: bytes, error: QueryableStateError) -> None:
        """Stops the query because of `error`, without waiting for its end."""
        ...

    def withdraw_commits(self, query_id: bytes, batch_id: int) -> str:
        """Takes back the commits of a batch and of all later ones, of a query that has ended.

        The next run begins with the batch and its old offsets; later batches are planned again.
        Returns what else prevents the batch from running again, as text; empty: nothing.
        Raises `RetryLaterError` if the query has started again, or the files cannot be changed
        now.
        """
        ...

    def end_query(self, query_id: bytes) -> None:
        """Ends the query as its user would, without an error; does not wait for the end.

        Its batch in flight may or may not be committed; none is after `query` reports the query as
        inactive. Raises `CheckpointError`, and the query keeps running, if the end would lose
        its progress.
        """
        ...

    def progress(self, query_id: bytes, batch_id: int) -> EngineProgress | None:
        """The logs of a committed batch, for a checkpoint; None if they cannot be read.

        Cheap, and called for each checkpoint; does not raise.
        """
        ...

    def export_progress(
        self, query_id: bytes, batch_id: int, storage: CheckpointStorage, folder: str
    ) -> None:
        """Writes Spark's part of a savepoint, from which a query continues after the batch.

        The batch is committed; the query may run, or have ended. `folder` is a URI of `storage`
        with no files. Raises `CheckpointError` if the progress of the batch cannot be read any
        more, or cannot be written.
        """
        ...
