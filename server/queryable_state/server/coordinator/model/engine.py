"""What the coordinator must know of the engine that runs the queries."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from queryable_state.server.checkpoint.file_systems.storage import CheckpointStorage
    from queryable_state.wire.errors import QueryableStateError


@dataclass(frozen=True, kw_only=True)
class QueryInfo:
    """One streaming query as the engine sees it now."""

    name: str
    """Name for people; empty where the user gave none."""
    run_id: bytes
    """16 bytes: the newest run. A task of any other run is fenced."""
    active: bool
    """Whether that run can still begin batches."""
    error: str | None = None
    """Why the run failed; None while active or when it ended by itself or was stopped."""
    checkpoint_location: str = ""
    """URI of the engine's checkpoint of the query; empty: it has none that lasts."""


@dataclass(frozen=True, kw_only=True)
class BatchClocks:
    """The time of one batch, the same whenever the batch is replayed."""

    timestamp_ms: int
    """Milliseconds since the epoch at which the batch was planned."""
    watermark_ms: int
    """Event-time watermark in milliseconds; 0: none."""
    offsets_digest: bytes
    """Digest of the offsets of the batch; differs when a checkpoint was rewound."""


class Engine(Protocol):
    """The streaming engine behind the coordinator.

    Called from several threads at once, never under the coordinator's lock; a
    call may take milliseconds. Ids are 16 bytes. Methods raise only
    `QueryableStateError`; anything else is a defect and logged as one.
    """

    def query(self, query_id: bytes) -> QueryInfo | None:
        """The query of this id, also after it ended; None: never heard of it."""
        ...

    def clocks(self, query_id: bytes, batch_id: int) -> BatchClocks:
        """The clocks of a batch that is planned, running or committed.

        Raises `RetryLaterError` where the offsets of the batch cannot be read
        now, `JobError` where they are gone.
        """
        ...

    def is_committed(self, query_id: bytes, batch_id: int) -> bool:
        """Whether the engine has durably committed the batch. Polled while one is in flight."""
        ...

    def newest_commit(self, query_id: bytes) -> int:
        """The newest batch the engine has durably committed; -1: none.

        Raises `RetryLaterError` where that cannot be read now.
        """
        ...

    def has_input(self, query_id: bytes, batch_id: int, sources: Sequence[int]) -> bool:
        """Whether a planned batch has input of any of these sources; none named: of any source.

        Sources are positions in the offsets of the batch. Input may turn out to have no row.
        Raises `RetryLaterError` where the offsets cannot be read now, `JobError` where they are
        gone.
        """
        ...

    def is_planned(self, query_id: bytes, batch_id: int) -> bool:
        """Whether it is durably fixed what the batch is made of; its `clocks` are there then."""
        ...

    def live_executors(self) -> int:
        """Executors that can run tasks, at least 1; asked for often, so the engine caches it."""
        ...

    def start_servers(self) -> None:
        """Has a state server started on each executor that has none.

        Waits for nothing, and may be repeated meanwhile; a failure is logged.
        """
        ...

    def stop_query(self, query_id: bytes, error: QueryableStateError) -> None:
        """Stops the query because of `error`, without waiting for its end."""
        ...

    def withdraw_commits(self, query_id: bytes, batch_id: int) -> str:
        """Takes back the commits of a batch and of all after it, of a query that has ended.

        The next run begins with the batch, of the offsets it had; later ones are planned anew.
        Returns what else keeps the batch from running again, for people; empty: nothing does.
        Raises `RetryLaterError` where the query has started again, or the files cannot be
        changed now.
        """
        ...

    def end_query(self, query_id: bytes) -> None:
        """Ends the query as its user would, without an error and without waiting for its end.

        Raises `CheckpointError`, and the query runs on, where its progress would go with it.

        Its batch in flight may still be committed, or may not; once `query` says that it is
        not active, no batch will be.
        """
        ...

    def export_progress(
        self, query_id: bytes, batch_id: int, storage: CheckpointStorage, folder: str
    ) -> None:
        """Writes the engine's part of a savepoint: what makes a query go on behind the batch.

        The batch is committed; the query may run, or have ended. `folder` is a URI of `storage`
        under which nothing is there yet. Raises `CheckpointError` where the progress of the
        batch cannot be read any more or cannot be written.
        """
        ...
