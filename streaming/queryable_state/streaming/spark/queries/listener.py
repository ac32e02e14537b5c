"""Spark listener that notifies the coordinator of commits and of the ends of queries."""

from __future__ import annotations

import json
import logging
import uuid
from typing import TYPE_CHECKING, Any, Protocol

from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.sql.streaming.listener import JStreamingQueryListener, StreamingQueryListener

from queryable_state.server.coordinator import OperatorLayout
from queryable_state.streaming.spark.queries.batch_reports import (
    batch_report,
    source_descriptions,
)
from queryable_state.streaming.spark.queries.failure import run_failure
from queryable_state.streaming.spark.queries.query_operators import optimized_away, query_operators
from queryable_state.streaming.spark.queries.source_backlog import file_backlogs
from queryable_state.streaming.spark.queries.trigger_check import trigger_refusal
from queryable_state.wire.errors import (
    JobError,
    QueryableStateError,
    Reason,
    RetryLaterError,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pyspark.sql.streaming.listener import (
        QueryProgressEvent,
        QueryStartedEvent,
        QueryTerminatedEvent,
    )

    from queryable_state.server.coordinator import BatchReport, RunFailure
    from queryable_state.streaming.spark.queries.spark_adapter import SparkAdapter
    from queryable_state.streaming.spark.queries.spark_log import SparkLog

_log = logging.getLogger("queryable_state.streaming")


class QueryObserver(Protocol):
    """Receiver of commits and ends of queries; implemented by the coordinator."""

    def batch_committed(self, query_id: bytes, batch_id: int) -> None:
        """Called when Spark has committed a batch."""

    def batch_reported(self, query_id: bytes, report: BatchReport) -> None:
        """Called with Spark's figures of a batch."""

    def run_failed(self, query_id: bytes, run_id: bytes, failure: RunFailure) -> None:
        """Called with the cause when a run has failed."""

    def refresh(self) -> None:
        """Called when a query has ended."""


class CommitListener(StreamingQueryListener):
    """Listener of one session. Events arrive about 100 ms late, but for idle queries too.

    The JVM calls it on a thread of its own, one event at a time.
    """

    def __init__(
        self,
        adapter: SparkAdapter,
        observer: QueryObserver,
        started: Callable[[bytes, str, str, Sequence[OperatorLayout]], None],
        spark_log: SparkLog,
    ) -> None:
        """`started` is called before the first batch of a query with stateful operators. Its
        arguments are the query's id and name, the configuration id, and the operators' layouts."""
        self._started = started
        self._spark_log = spark_log
        self._adapter = adapter
        self._observer = observer
        self._called: Any = None

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802 - Spark's name
        query_id = event.id.bytes
        self._adapter.note_started(query_id, event.runId.bytes, event.name or "")
        # Spark waits for this method before it plans the first batch.
        refusal = self._adapter.sink_refusal(query_id)
        execution = self._adapter.execution(query_id)
        if refusal is None and execution is not None:
            refusal = self._run_started(query_id, event.name or "", execution)
        if refusal is not None:
            self._adapter.fail_query(query_id, refusal)

    def _run_started(
        self, query_id: bytes, name: str, execution: Any
    ) -> QueryableStateError | None:
        """Reports the operators of a query; returns an error if the query must not run."""
        try:
            operators = query_operators(execution)
            if not operators:
                return None
            refused: QueryableStateError | None = trigger_refusal(execution)
            removed = optimized_away(execution)
            config_id = next(iter(operators)).config_id
            if refused is None:
                refused = self._adapter.sources_refusal(execution, config_id)
        except Py4JError as problem:
            _log.warning(
                "the operators of query %s cannot be read from its plan: %s",
                query_id.hex(),
                problem,
            )
            return None
        self._spark_log.hide_failure(query_id, name)
        if refused is not None:
            return refused
        if removed:
            names = ", ".join(repr(operator.uid) for operator in removed)
            return JobError(
                f"Spark's optimizer removes operator {names} from the plan of the query, because "
                "the plan needs none of its rows (as with limit(0)): the operator would receive no "
                "record. Remove the part of the plan that discards its rows",
                reason=Reason.PARTIAL_BATCH,
            )
        layouts = [
            OperatorLayout(
                uid=operator.uid,
                parallelism=operator.parallelism,
                max_parallelism=operator.max_parallelism,
                sources=sources,
            )
            for operator, sources in operators.items()
        ]
        self._started(query_id, name, config_id, layouts)
        return None

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802 - Spark's name
        progress = event.progress
        self.progressed(progress.id.bytes, progress.runId.bytes, progress.batchId)

    def reported(self, query_id: bytes, progress: Mapping[str, Any]) -> None:
        """Passes Spark's figures of a batch on."""
        try:
            execution = self._adapter.execution(query_id)
        except RetryLaterError:
            execution = None
        backlogs = file_backlogs(execution, source_descriptions(progress))
        self._observer.batch_reported(query_id, batch_report(progress, backlogs))

    def progressed(self, query_id: bytes, run_id: bytes, batch_id: int) -> None:
        """Handles a commit of a run."""
        self._adapter.note_committed(query_id, run_id, batch_id)
        self._observer.batch_committed(query_id, batch_id)

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802 - Spark's name
        self._spark_log.query_ended(event.id.bytes, event.exception)
        self._adapter.note_ended(event.id.bytes, event.runId.bytes, event.exception)
        known = self._adapter.stop_reason(event.id.bytes)
        # Spark knows no exception of a query that the coordinator has stopped.
        if event.exception is not None or known is not None:
            self._observer.run_failed(
                event.id.bytes, event.runId.bytes, run_failure(event.exception or "", known)
            )
        self._observer.refresh()

    @property
    def _jlistener(self) -> Any:
        """The JVM listener; pyspark reads this attribute to add and to remove a listener."""
        if self._called is None:
            jvm: Any = SparkContext._jvm
            self._called = jvm.PythonStreamingQueryListenerWrapper(_SparkEvents(self))
        return self._called


class _SparkEvents(JStreamingQueryListener):
    """Reads a progress event as one JSON text. pyspark's own event object needs some hundred JVM
    calls, on cores that the next batch uses."""

    def __init__(self, listener: CommitListener) -> None:
        super().__init__(listener)
        self._listener = listener

    def onQueryProgress(self, jevent: Any) -> None:  # noqa: N802 - Spark's name
        progress = json.loads(jevent.progress().json())
        query_id, run_id = (uuid.UUID(progress[name]).bytes for name in ("id", "runId"))
        self._listener.progressed(query_id, run_id, progress["batchId"])
        self._listener.reported(query_id, progress)

    def onQueryIdle(self, jevent: Any) -> None:  # noqa: N802 - Spark's name
        """Ignored: nothing has been committed."""
