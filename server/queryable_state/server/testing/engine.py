"""Stream engine in memory: queries whose batches a test plans and commits."""

from __future__ import annotations

import hashlib
import threading
import uuid
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from queryable_state.internal.v1.checkpoint_pb2 import EngineLog, EngineProgress
from queryable_state.server.checkpoint.file_systems.storage import join
from queryable_state.server.coordinator.model.engine import BatchClocks, QueryInfo
from queryable_state.wire.errors import CheckpointError, JobError, RetryLaterError, UnknownJobError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from queryable_state.server.checkpoint.file_systems.storage import CheckpointStorage
    from queryable_state.wire.errors import QueryableStateError


@dataclass
class _Query:
    info: QueryInfo
    clocks: dict[int, BatchClocks] = field(default_factory=dict)
    committed: int = -1
    without_input: set[int] = field(default_factory=set)


class InMemoryEngine:
    """Implements `Engine` without Spark; a test runs the queries.

    `start` a query, `plan` a batch, run its tasks, `commit` the batch, and `end` or
    `start` again. Thread-safe.
    """

    def __init__(self, *, executors: int = 1) -> None:
        self._lock = threading.Lock()
        self._queries: dict[bytes, _Query] = {}
        self._executors = executors
        self.server_starts = 0
        """Calls of `start_servers`."""
        self.stopped: dict[bytes, QueryableStateError] = {}
        """Errors with which the coordinator stopped queries, by query id."""

    def start(
        self,
        name: str = "",
        *,
        query_id: bytes | None = None,
        run_id: bytes | None = None,
        checkpoint_location: str = "",
    ) -> tuple[bytes, bytes]:
        """Starts a query, or a new run of one; returns query and run id."""
        query_id = query_id or uuid.uuid4().bytes
        run_id = run_id or uuid.uuid4().bytes
        with self._lock:
            known = self._queries.get(query_id)
            info = QueryInfo(
                name=name, run_id=run_id, active=True, checkpoint_location=checkpoint_location
            )
            if known is None:
                self._queries[query_id] = _Query(info)
            else:
                known.info = replace(
                    info,
                    name=name or known.info.name,
                    checkpoint_location=checkpoint_location or known.info.checkpoint_location,
                )
        return query_id, run_id

    def plan(
        self,
        query_id: bytes,
        batch_id: int,
        *,
        timestamp_ms: int = 1_000,
        watermark_ms: int = 0,
        offsets: bytes | None = None,
        has_input: bool = True,
        clock_id: str = "",
    ) -> None:
        """Plans a batch; called before its tasks run. `clock_id` is the id of a marker source."""
        digest = hashlib.sha256(offsets or str(batch_id).encode()).digest()
        clocks = BatchClocks(
            timestamp_ms=timestamp_ms,
            watermark_ms=watermark_ms,
            offsets_digest=digest,
            clock_ids=(clock_id,) if clock_id else (),
        )
        with self._lock:
            query = self._queries[query_id]
            query.clocks[batch_id] = clocks
            if not has_input:
                query.without_input.add(batch_id)

    def commit(self, query_id: bytes, batch_id: int) -> None:
        """Commits a batch without notifying the coordinator."""
        with self._lock:
            query = self._queries[query_id]
            query.committed = max(query.committed, batch_id)

    def end(self, query_id: bytes, *, error: str | None = None) -> None:
        """Ends the run of a query; `error` is the cause of a failure."""
        with self._lock:
            query = self._queries[query_id]
            query.info = replace(query.info, active=False, error=error)

    def set_executors(self, count: int) -> None:
        """Sets the number of live executors."""
        with self._lock:
            self._executors = count

    def query(self, query_id: bytes) -> QueryInfo | None:
        """The query of this id; None if there is none."""
        with self._lock:
            query = self._queries.get(query_id)
            return None if query is None else query.info

    def clocks(self, query_id: bytes, batch_id: int) -> BatchClocks:
        """The clocks of a planned batch."""
        with self._lock:
            query = self._queries.get(query_id)
            if query is None:
                raise UnknownJobError(f"no query {query_id.hex()} was started")
            if batch_id not in query.clocks:
                raise JobError(f"batch {batch_id} of query {query_id.hex()} was not planned")
            return query.clocks[batch_id]

    def is_committed(self, query_id: bytes, batch_id: int) -> bool:
        """True if `commit` was called for the batch or a later one."""
        with self._lock:
            query = self._queries.get(query_id)
            return query is not None and batch_id <= query.committed

    def newest_commit(self, query_id: bytes) -> int:
        """The newest committed batch; -1 if there is none."""
        with self._lock:
            query = self._queries.get(query_id)
            return -1 if query is None else query.committed

    def is_planned(self, query_id: bytes, batch_id: int) -> bool:
        """True if `plan` was called for the batch."""
        with self._lock:
            query = self._queries.get(query_id)
            return query is not None and batch_id in query.clocks

    def has_input(self, query_id: bytes, batch_id: int, sources: Sequence[int]) -> bool:
        """True if the batch is planned with input."""
        with self._lock:
            query = self._queries[query_id]
            return batch_id in query.clocks and batch_id not in query.without_input

    def withdraw_commits(self, query_id: bytes, batch_id: int) -> str:
        """Reverts `commit` of the batch and of later ones."""
        with self._lock:
            query = self._queries[query_id]
            if query.info.active:
                raise RetryLaterError(f"query {query_id.hex()} has started again")
            query.committed = min(query.committed, batch_id - 1)
        return ""

    def live_executors(self) -> int:
        """The number of live executors."""
        with self._lock:
            return self._executors

    def start_servers(self) -> None:
        """Counts the call."""
        with self._lock:
            self.server_starts += 1

    def stop_query(self, query_id: bytes, error: QueryableStateError) -> None:
        """Ends the query and keeps the error."""
        with self._lock:
            self.stopped[query_id] = error
            query = self._queries[query_id]
            query.info = replace(query.info, active=False, error=str(error))

    def end_query(self, query_id: bytes) -> None:
        """Ends the query, without an error."""
        self.end(query_id)

    def progress(self, query_id: bytes, batch_id: int) -> EngineProgress | None:
        """One log: the digest of the offsets of the batch."""
        digest = self.clocks(query_id, batch_id).offsets_digest
        log = EngineLog(name=f"offsets/{batch_id}", content=digest)
        return EngineProgress(location="memory", logs=[log])

    def export_progress(
        self, query_id: bytes, batch_id: int, storage: CheckpointStorage, folder: str
    ) -> None:
        """Writes a file `progress` with the id of the query, the batch and its offsets' digest."""
        if not self.is_committed(query_id, batch_id):
            raise CheckpointError(f"batch {batch_id} of query {query_id.hex()} is not committed")
        digest = self.clocks(query_id, batch_id).offsets_digest
        text = f"{query_id.hex()} {batch_id} {digest.hex()}\n"
        storage.write(join(folder, "progress"), text.encode())
