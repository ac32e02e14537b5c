"""Spark as the coordinator sees it."""

from __future__ import annotations

import logging
import threading
import time
import uuid
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError

from queryable_state.server.coordinator.model.engine import BatchClocks, QueryInfo
from queryable_state.streaming.spark.queries.checkpoint_files import CheckpointFiles, is_temporary
from queryable_state.streaming.spark.savepoints.file_sink_check import check_sink, skipped_batch
from queryable_state.streaming.spark.savepoints.progress_export import export_progress
from queryable_state.streaming.spark.scratch_folder import outlives_query
from queryable_state.streaming.spark.spark_files import SparkFiles
from queryable_state.streaming.spark.worker.failure import to_be_carried
from queryable_state.wire.errors import (
    CheckpointError,
    JobError,
    QueryableStateError,
    RetryLaterError,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    from queryable_state.server.checkpoint.file_systems.storage import CheckpointStorage

_log = logging.getLogger("queryable_state.streaming")

_RETRY_AFTER_MS = 100
# A query that is to fail looks for its next batch within this time, or is stopped.
_FAILURE_S = 30.0
_EXECUTORS_KNOWN_S = 1.0
_END_POLL_S = 0.02
_SINK_LOG_INTERVAL = "spark.sql.streaming.fileSink.log.compactInterval"


@dataclass(frozen=True)
class _SeenQuery:
    """What is remembered of a query once Spark has forgotten it."""

    info: QueryInfo
    files: CheckpointFiles | None = None
    committed: int = -1
    stopped_for: QueryableStateError | None = None
    sink: str | None = None
    """Spark's description of its sink."""


class SparkAdapter:
    """The streaming queries of one SparkContext, whichever session started them.

    Asks the JVM's registry of active queries, which spans sessions; what has ended
    is answered from memory. Usable from every thread.
    """

    def __init__(self, spark: SparkSession, start_servers: Callable[[], None]) -> None:
        """`start_servers` as `Engine.start_servers`."""
        self._start_servers = start_servers
        self._spark = spark
        self._context = spark.sparkContext
        self._lock = threading.Lock()
        self._seen: dict[bytes, _SeenQuery] = {}
        self._uuid_class: Any = None
        self._executors = (1, -_EXECUTORS_KNOWN_S)

    def query(self, query_id: bytes) -> QueryInfo | None:
        """The query of this id, also after it ended."""
        execution = self._execution(query_id)
        if execution is not None:
            return self._observe(query_id, execution).info
        with self._lock:
            seen = self._seen.get(query_id)
            if seen is not None and seen.info.active:
                # It ended since it was last asked for; why, the listener says.
                seen = replace(seen, info=replace(seen.info, active=False))
                self._seen[query_id] = seen
        return None if seen is None else seen.info

    def clocks(self, query_id: bytes, batch_id: int) -> BatchClocks:
        """The clocks Spark planned a batch with."""
        files = self._files(query_id)
        clocks = None if files is None else files.clocks(batch_id)
        if clocks is not None:
            return clocks
        if files is None or self._execution(query_id) is not None:
            raise RetryLaterError(
                f"the offsets of batch {batch_id} of query {query_id.hex()} are not there yet",
                retry_after_ms=_RETRY_AFTER_MS,
            )
        raise JobError(
            f"{files.root} has no offsets of batch {batch_id}, and query {query_id.hex()} has "
            "ended: its checkpoint is gone or was rewound; start the query again"
        )

    def is_committed(self, query_id: bytes, batch_id: int) -> bool:
        """Whether Spark has committed the batch."""
        with self._lock:
            seen = self._seen.get(query_id)
        if seen is not None and batch_id <= seen.committed:
            return True
        files = self._files(query_id)
        return files is not None and files.is_committed(batch_id)

    def newest_commit(self, query_id: bytes) -> int:
        """The newest batch Spark has committed; -1: none."""
        files = self._files(query_id)
        return -1 if files is None else files.newest_commit()

    def has_input(self, query_id: bytes, batch_id: int, sources: Sequence[int]) -> bool:
        """Whether a source moved in a batch, by Spark's offsets."""
        files = self._files(query_id)
        moved = None if files is None else files.has_input(batch_id, sources)
        if moved is not None:
            return moved
        raise JobError(
            f"query {query_id.hex()} has no offsets of batch {batch_id} any more: its checkpoint "
            "is gone or was rewound; start the query again"
        )

    def withdraw_commits(self, query_id: bytes, batch_id: int) -> str:
        """Removes Spark's commits of a batch and of later ones, of a query that has ended."""
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
        """The JVM's `StreamExecution` of an active query; None where it is not active."""
        return self._execution(query_id)

    def is_planned(self, query_id: bytes, batch_id: int) -> bool:
        """Whether Spark has written the offsets of the batch."""
        files = self._files(query_id)
        return files is not None and files.is_planned(batch_id)

    def live_executors(self) -> int:
        """Executors, counted at most once a second."""
        with self._lock:
            count, counted_s = self._executors
        if time.monotonic() - counted_s >= _EXECUTORS_KNOWN_S:
            count = live_executors(self._context)
            with self._lock:
                self._executors = count, time.monotonic()
        return count

    def start_servers(self) -> None:
        """Has a state server started on each executor that has none; waits for nothing."""
        self._start_servers()

    def stop_query(self, query_id: bytes, error: QueryableStateError) -> None:
        """Stops the query; `stop_reason` tells why afterwards."""
        _log.error("query %s is stopped: %s", query_id.hex(), error)
        execution = self._execution(query_id)
        if execution is None:
            return
        self._observe(query_id, execution)
        with self._lock:
            seen = self._seen[query_id]
            info = replace(seen.info, error=str(error))
            self._seen[query_id] = replace(seen, info=info, stopped_for=error)
        # The query fails of it where it looks for its next batch before it is stopped.
        self._mark_error(execution, error)
        self._stop_aside(execution, query_id, _FAILURE_S)

    def end_query(self, query_id: bytes) -> None:
        """Stops the query without a reason, and without waiting for its end."""
        execution = self._execution(query_id)
        if execution is None:
            return
        files = self._observe(query_id, execution).files
        if files is not None and is_temporary(files.root) and not outlives_query(files.root):
            raise CheckpointError(
                f"query {query_id.hex()} has no checkpoint location, and Spark removes the "
                "temporary one, with the progress a savepoint needs, when the query stops: make a "
                "savepoint while it runs, or start it with a checkpointLocation"
            )
        self._stop_aside(execution, query_id)

    def export_progress(
        self, query_id: bytes, batch_id: int, storage: CheckpointStorage, folder: str
    ) -> None:
        """Writes a checkpoint of the query as of a committed batch, constructed from its own."""
        files = self._files(query_id)
        if files is None:
            raise CheckpointError(
                f"Spark's checkpoint of query {query_id.hex()} is not known any more: the query "
                "ended before a task of it asked the coordinator"
            )
        export_progress(files.files, batch_id, storage, folder)

    def fail_query(self, query_id: bytes, error: QueryableStateError) -> None:
        """Lets the query fail of the error, for its user to see, before its next batch begins."""
        _log.error("query %s fails: %s", query_id.hex(), error)
        execution = self._execution(query_id)
        if execution is not None and not self._mark_error(execution, error):
            self.stop_query(query_id, error)

    def sink_refusal(self, query_id: bytes) -> QueryableStateError | None:
        """Why a query that starts would lose output in its sink; None: it would not."""
        execution = self._execution(query_id)
        if execution is None:
            return None
        location = SparkFiles(self._context, execution.resolvedCheckpointRoot())
        interval = int(execution.sparkSession().conf().get(_SINK_LOG_INTERVAL, "10"))
        return check_sink(self._context, location, execution.sink().toString(), interval)

    def stop_reason(self, query_id: bytes) -> QueryableStateError | None:
        """Why the coordinator had the query stopped; None: it did not."""
        with self._lock:
            seen = self._seen.get(query_id)
        return None if seen is None else seen.stopped_for

    def forget_stop(self, query_id: bytes) -> None:
        """Forgets why the query was stopped: it is about to be started again."""
        with self._lock:
            seen = self._seen.get(query_id)
            if seen is not None:
                self._seen[query_id] = replace(seen, stopped_for=None)

    def note_committed(self, query_id: bytes, run_id: bytes, batch_id: int) -> None:
        """Remembers a commit of a run, for after the checkpoint is gone."""
        with self._lock:
            seen = self._seen.get(query_id)
            if seen is not None and seen.info.run_id == run_id and batch_id > seen.committed:
                self._seen[query_id] = replace(seen, committed=batch_id)

    def note_started(self, query_id: bytes, run_id: bytes, name: str) -> None:
        """Remembers a run, forgetting how the one before it ended."""
        with self._lock:
            self._seen[query_id] = _SeenQuery(QueryInfo(name=name, run_id=run_id, active=True))

    def note_ended(self, query_id: bytes, run_id: bytes, error: str | None) -> None:
        """Remembers how a run ended, unless a newer one has begun."""
        with self._lock:
            seen = self._seen.get(query_id)
            if seen is not None and seen.info.run_id == run_id:
                info = replace(seen.info, active=False, error=error or seen.info.error)
                self._seen[query_id] = replace(seen, info=info)

    def _stop_aside(self, execution: Any, query_id: bytes, after_s: float = 0.0) -> None:
        threading.Thread(
            target=_stop, args=(execution, query_id, after_s), name="stop-query", daemon=True
        ).start()

    def _mark_error(self, execution: Any, error: QueryableStateError) -> bool:
        """Hands Spark the error a query fails of; False where Spark does not take it."""
        try:
            jvm: Any = self._context._jvm
            text = str(to_be_carried(error)) + "\n" + "\n".join(error.__notes__)
            cause = jvm.java.lang.IllegalStateException(f"{type(error).__name__}: {text}")
            execution.errorNotifier().markError(cause)
        except (Py4JError, OSError) as problem:
            _log.warning("the cause of a failed query cannot be handed to Spark: %s", problem)
            return False
        return True

    @property
    def _jsc(self) -> Any:
        return self._context._jsc

    def _execution(self, query_id: bytes) -> Any:
        """The JVM's object of an active query; None where it is not active or Spark is gone."""
        context = self._context
        if context._jsc is None:
            return None
        try:
            jvm_id = self._uuids(context).fromString(str(uuid.UUID(bytes=query_id)))
            return self._spark._jsparkSession.sharedState().activeStreamingQueries().get(jvm_id)
        except (Py4JError, AttributeError, OSError) as problem:
            raise RetryLaterError(
                f"Spark does not answer: {problem}", retry_after_ms=_RETRY_AFTER_MS
            ) from problem

    def _uuids(self, context: SparkContext) -> Any:
        """The JVM's class UUID. To look a class up by its name takes the JVM milliseconds."""
        if self._uuid_class is None:
            jvm: Any = context._jvm
            self._uuid_class = jvm.java.util.UUID
        return self._uuid_class

    def _observe(self, query_id: bytes, execution: Any) -> _SeenQuery:
        try:
            run_id = uuid.UUID(execution.runId().toString()).bytes
            name, active = execution.name() or "", bool(execution.isActive())
            root = execution.resolvedCheckpointRoot()
            sink = execution.sink().toString()
        except (Py4JError, OSError) as problem:
            raise RetryLaterError(
                f"Spark does not answer: {problem}", retry_after_ms=_RETRY_AFTER_MS
            ) from problem
        with self._lock:
            seen = self._seen.get(query_id)
            if seen is None or seen.info.run_id != run_id:
                # What a run before it had committed may have been rewound in the checkpoint.
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
        execution = self._execution(query_id)
        return None if execution is None else self._observe(query_id, execution).files


def _stop(execution: Any, query_id: bytes, after_s: float) -> None:
    """Stops a query, unless it ends by itself in the time given."""
    give_up_s = time.monotonic() + after_s
    try:
        while execution.isActive() and time.monotonic() < give_up_s:
            time.sleep(_END_POLL_S)
        execution.stop()
    except (Py4JError, OSError) as problem:
        _log.error("query %s could not be stopped: %s", query_id.hex(), problem)


def live_executors(context: SparkContext) -> int:
    """Executors now, at least 1; the driver counts where it runs the tasks."""
    try:
        jsc: Any = context._jsc
        return max(1, int(jsc.sc().getExecutorMemoryStatus().size()) - 1)
    except (Py4JError, AttributeError):
        return 1
