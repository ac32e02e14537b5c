"""Adapter of Spark's streaming queries to the coordinator's `Engine` interface."""

from __future__ import annotations

import logging
import threading
import time
import uuid
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError

from queryable_state.server.coordinator.model.engine import BatchClocks, QueryInfo
from queryable_state.streaming.spark.plan.plan_sources import plan_sources
from queryable_state.streaming.spark.queries.active_queries import (
    RETRY_AFTER_MS,
    ActiveQueries,
    live_executors,
)
from queryable_state.streaming.spark.queries.checkpoint_files import CheckpointFiles, is_temporary
from queryable_state.streaming.spark.queries.scratch_folder import outlives_query
from queryable_state.streaming.spark.savepoints.checkpoint_progress import progress_of
from queryable_state.streaming.spark.savepoints.file_sink_check import check_sink, skipped_batch
from queryable_state.streaming.spark.savepoints.progress_export import export_progress
from queryable_state.streaming.spark.savepoints.source_offsets import started_sources
from queryable_state.streaming.spark.savepoints.spark_files import SparkFiles
from queryable_state.wire.errors import (
    CheckpointError,
    JobError,
    QueryableStateError,
    RetryLaterError,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import SparkSession

    from queryable_state.internal.v1.checkpoint_pb2 import EngineProgress
    from queryable_state.server.checkpoint.file_systems.storage import CheckpointStorage

_log = logging.getLogger("queryable_state.streaming")

# Time for a query to fail by itself at its next batch; then it is stopped.
_FAILURE_S = 30.0
_EXECUTORS_VALID_S = 1.0
_SINK_LOG_INTERVAL = "spark.sql.streaming.fileSink.log.compactInterval"


@dataclass(frozen=True)
class _SeenQuery:
    """The last known facts about a query; used after Spark has removed it."""

    info: QueryInfo
    files: CheckpointFiles | None = None
    committed: int = -1
    stopped_for: QueryableStateError | None = None
    sink: str | None = None
    """Spark's description of its sink."""


class SparkAdapter:
    """The streaming queries of one SparkContext, in all its sessions.

    Active queries are read from the JVM's registry, ended queries from memory. Usable from every
    thread.
    """

    def __init__(self, spark: SparkSession, start_servers: Callable[[], None]) -> None:
        """`start_servers` implements `Engine.start_servers`."""
        self._start_servers = start_servers
        self._active = ActiveQueries(spark)
        self._context = spark.sparkContext
        self._lock = threading.Lock()
        self._seen: dict[bytes, _SeenQuery] = {}
        self._jobs: set[str] = set()
        self._executors = (1, -_EXECUTORS_VALID_S)

    def query(self, query_id: bytes) -> QueryInfo | None:
        """The query with this id, active or ended; None if it is unknown."""
        execution = self._active.execution(query_id)
        if execution is not None:
            return self._observe(query_id, execution).info
        with self._lock:
            seen = self._seen.get(query_id)
            if seen is not None and seen.info.active:
                # It ended since the last call; the listener will add the error.
                seen = replace(seen, info=replace(seen.info, active=False))
                self._seen[query_id] = seen
        return None if seen is None else seen.info

    def clocks(self, query_id: bytes, batch_id: int) -> BatchClocks:
        """The clocks with which Spark planned a batch."""
        files = self._files(query_id)
        clocks = None if files is None else files.clocks(batch_id)
        if clocks is not None:
            return clocks
        if files is None or self._active.execution(query_id) is not None:
            raise RetryLaterError(
                f"the offsets of batch {batch_id} of query {query_id.hex()} do not exist yet",
                retry_after_ms=RETRY_AFTER_MS,
            )
        raise JobError(
            f"{files.root} has no offsets of batch {batch_id}, and query {query_id.hex()} has "
            "ended: its checkpoint was removed or rewound; start the query again"
        )

    def is_committed(self, query_id: bytes, batch_id: int) -> bool:
        """True if Spark has committed the batch."""
        with self._lock:
            seen = self._seen.get(query_id)
        if seen is not None and batch_id <= seen.committed:
            return True
        files = self._files(query_id)
        return files is not None and files.is_committed(batch_id)

    def newest_commit(self, query_id: bytes) -> int:
        """The newest batch Spark has committed; -1 if there is none."""
        files = self._files(query_id)
        return -1 if files is None else files.newest_commit()

    def has_input(self, query_id: bytes, batch_id: int, sources: Sequence[int]) -> bool:
        """True if a source has new offsets in a batch."""
        files = self._files(query_id)
        moved = None if files is None else files.has_input(batch_id, sources)
        if moved is not None:
            return moved
        raise JobError(
            f"query {query_id.hex()} has no offsets of batch {batch_id} any more: its checkpoint "
            "was removed or rewound; start the query again"
        )

    def withdraw_commits(self, query_id: bytes, batch_id: int) -> str:
        """Removes an ended query's commits of a batch and of later batches; returns why its sink
        would skip the batch, or an empty string."""
        files, info = self._files(query_id), self.query(query_id)
        if files is None or info is None or info.active:
            raise RetryLaterError(f"query {query_id.hex()} has started again")
        files.withdraw_commits(batch_id)
        with self._lock:
            seen = self._seen[query_id]
            committed = min(seen.committed, batch_id - 1)
            self._seen[query_id] = replace(seen, committed=committed)
        return "" if seen.sink is None else skipped_batch(self._context, seen.sink, batch_id)

    def execution(self, query_id: bytes) -> Any:
        """The JVM's `StreamExecution` of an active query; None if it is not active."""
        return self._active.execution(query_id)

    def is_planned(self, query_id: bytes, batch_id: int) -> bool:
        """True if Spark has written the offsets of the batch."""
        files = self._files(query_id)
        return files is not None and files.is_planned(batch_id)

    def live_executors(self) -> int:
        """Number of executors, at most a second old."""
        with self._lock:
            count, counted_s = self._executors
        if time.monotonic() - counted_s >= _EXECUTORS_VALID_S:
            count = live_executors(self._context)
            with self._lock:
                self._executors = count, time.monotonic()
        return count

    def start_servers(self) -> None:
        """Starts a state server on each executor that has none, without waiting."""
        self._start_servers()

    def stop_query(self, query_id: bytes, error: QueryableStateError) -> None:
        """Stops the query; `stop_reason` returns the error afterwards."""
        _log.error("query %s is stopped: %s", query_id.hex(), error)
        execution = self._active.execution(query_id)
        if execution is None:
            return
        self._observe(query_id, execution)
        with self._lock:
            seen = self._seen[query_id]
            info = replace(seen.info, error=str(error))
            self._seen[query_id] = replace(seen, info=info, stopped_for=error)
        # If the query looks for its next batch before it is stopped, it fails with the error.
        self._active.mark_error(execution, error)
        self._active.stop(execution, query_id, _FAILURE_S)

    def end_query(self, query_id: bytes) -> None:
        """Stops the query without an error, and without waiting for its end."""
        execution = self._active.execution(query_id)
        if execution is None:
            return
        files = self._observe(query_id, execution).files
        if files is not None and is_temporary(files.root) and not outlives_query(files.root):
            raise CheckpointError(
                f"query {query_id.hex()} has no checkpoint location, and Spark removes the "
                "temporary one, with the progress a savepoint needs, when the query stops: take a "
                "savepoint while it runs, or start it with a checkpointLocation"
            )
        self._active.stop(execution, query_id)

    def progress(self, query_id: bytes, batch_id: int) -> EngineProgress | None:
        """The logs of a committed batch; None if they cannot be read."""
        try:
            files = self._files(query_id)
            return None if files is None else progress_of(files.files, batch_id)
        except (QueryableStateError, Py4JError, OSError) as problem:
            _log.info(
                "no other job can start from the checkpoint of batch %d of query %s: %s",
                batch_id,
                query_id.hex(),
                problem,
            )
            return None

    def export_progress(
        self, query_id: bytes, batch_id: int, storage: CheckpointStorage, folder: str
    ) -> None:
        """Writes a checkpoint of the query as of a committed batch, derived from its own."""
        files = self._files(query_id)
        if files is None:
            raise CheckpointError(
                f"Spark's checkpoint of query {query_id.hex()} is unknown: the query ended before "
                "its first task called the coordinator"
            )
        export_progress(files.files, batch_id, storage, folder)

    def fail_query(self, query_id: bytes, error: QueryableStateError) -> None:
        """Makes the query fail with the error before its next batch."""
        _log.error("query %s fails: %s", query_id.hex(), error)
        execution = self._active.execution(query_id)
        if execution is not None and not self._active.mark_error(execution, error):
            self.stop_query(query_id, error)

    def sink_refusal(self, query_id: bytes) -> QueryableStateError | None:
        """Why a starting query would lose output in its sink; None if it would not."""
        execution = self._active.execution(query_id)
        if execution is None:
            return None
        location = SparkFiles(self._context, execution.resolvedCheckpointRoot())
        interval = int(execution.sparkSession().conf().get(_SINK_LOG_INTERVAL, "10"))
        return check_sink(self._context, location, execution.sink().toString(), interval)

    def note_job(self, config_id: str) -> None:
        """Notes a configuration whose queries are jobs, which check their sources themselves."""
        self._jobs.add(config_id)

    def sources_refusal(self, execution: Any, config_id: str) -> QueryableStateError | None:
        """Why a starting query of the user cannot go on from its Spark checkpoint; None if it can.

        Records its sources then. Raises Py4JError if the JVM does not answer.
        """
        if config_id in self._jobs:
            return None
        files = SparkFiles(self._context, execution.resolvedCheckpointRoot())
        try:
            started_sources(files, plan_sources(execution.analyzedPlan()))
        except QueryableStateError as refusal:
            return refusal
        return None

    def is_stopping(self, query_id: bytes) -> bool:
        """True if someone is stopping an active query."""
        try:
            execution = self._active.execution(query_id)
            return execution is not None and not execution.isActive()
        except (RetryLaterError, Py4JError, OSError):
            # Spark itself stops.
            return True

    def stop_reason(self, query_id: bytes) -> QueryableStateError | None:
        """The error with which the coordinator stopped the query; None if it did not."""
        with self._lock:
            seen = self._seen.get(query_id)
        return None if seen is None else seen.stopped_for

    def forget_stop(self, query_id: bytes) -> None:
        """Clears `stop_reason`, before the query is started again."""
        with self._lock:
            seen = self._seen.get(query_id)
            if seen is not None:
                self._seen[query_id] = replace(seen, stopped_for=None)

    def note_committed(self, query_id: bytes, run_id: bytes, batch_id: int) -> None:
        """Records a commit of a run, which stays known if the checkpoint is removed."""
        with self._lock:
            seen = self._seen.get(query_id)
            if seen is not None and seen.info.run_id == run_id and batch_id > seen.committed:
                self._seen[query_id] = replace(seen, committed=batch_id)

    def note_started(self, query_id: bytes, run_id: bytes, name: str) -> None:
        """Records the start of a run, and clears the facts of the former run."""
        with self._lock:
            self._seen[query_id] = _SeenQuery(QueryInfo(name=name, run_id=run_id, active=True))

    def note_ended(self, query_id: bytes, run_id: bytes, error: str | None) -> None:
        """Records the end of a run, unless a newer run has started."""
        with self._lock:
            seen = self._seen.get(query_id)
            if seen is not None and seen.info.run_id == run_id:
                info = replace(seen.info, active=False, error=error or seen.info.error)
                self._seen[query_id] = replace(seen, info=info)

    def _observe(self, query_id: bytes, execution: Any) -> _SeenQuery:
        try:
            run_id = uuid.UUID(execution.runId().toString()).bytes
            name, active = execution.name() or "", bool(execution.isActive())
            root = execution.resolvedCheckpointRoot()
            sink = execution.sink().toString()
        except (Py4JError, OSError) as problem:
            raise RetryLaterError(
                f"Spark does not answer: {problem}", retry_after_ms=RETRY_AFTER_MS
            ) from problem
        with self._lock:
            seen = self._seen.get(query_id)
            if seen is None or seen.info.run_id != run_id:
                # The checkpoint may have been rewound before this run: clear former commits.
                seen = _SeenQuery(QueryInfo(name=name, run_id=run_id, active=active))
            if seen.files is None or seen.files.root != root:
                seen = replace(seen, files=CheckpointFiles(self._context, root))
            location = "" if is_temporary(root) else root
            info = replace(seen.info, name=name, active=active, checkpoint_location=location)
            self._seen[query_id] = seen = replace(seen, info=info, sink=sink)
            return seen

    def _files(self, query_id: bytes) -> CheckpointFiles | None:
        with self._lock:
            seen = self._seen.get(query_id)
        if seen is not None and seen.files is not None:
            return seen.files
        execution = self._active.execution(query_id)
        return None if execution is None else self._observe(query_id, execution).files
