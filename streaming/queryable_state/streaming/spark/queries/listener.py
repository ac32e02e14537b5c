"""Tells the coordinator what Spark says of its queries."""

from __future__ import annotations

import logging
import uuid
from typing import TYPE_CHECKING, Any, Protocol

from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.sql.streaming.listener import JStreamingQueryListener, StreamingQueryListener

from queryable_state.server.coordinator import OperatorLayout
from queryable_state.streaming.spark.queries.query_operators import optimized_away, query_operators
from queryable_state.wire.errors import JobError, Reason

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql.streaming.listener import (
        QueryProgressEvent,
        QueryStartedEvent,
        QueryTerminatedEvent,
    )

    from queryable_state.streaming.spark.queries.spark_adapter import SparkAdapter
    from queryable_state.wire.errors import QueryableStateError

_log = logging.getLogger("queryable_state.streaming")


class QueryObserver(Protocol):
    """Who wants to know of commits and ends; the coordinator."""

    def batch_committed(self, query_id: bytes, batch_id: int) -> None:
        """The engine has committed a batch."""

    def refresh(self) -> None:
        """A query has ended."""


class CommitListener(StreamingQueryListener):
    """Spark's word on commits and ends: about 100 ms late, but also of queries that sit idle.

    Called by the JVM on a thread of its own, one event at a time.
    """

    def __init__(
        self,
        engine: SparkAdapter,
        observer: QueryObserver,
        started: Callable[[bytes, str, str, Sequence[OperatorLayout]], None],
    ) -> None:
        """`started` is called before the first batch of a query with stateful operators: with its
        id, its name, and the configuration and layouts of the operators in its plan."""
        self._started = started
        self._engine = engine
        self._observer = observer
        self._called: Any = None

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802 - Spark's name
        query_id = event.id.bytes
        self._engine.note_started(query_id, event.runId.bytes, event.name or "")
        # Spark waits for this before it looks for the first batch.
        refusal = self._engine.sink_refusal(query_id)
        execution = self._engine.execution(query_id)
        if refusal is None and execution is not None:
            refusal = self._run_started(query_id, event.name or "", execution)
        if refusal is not None:
            self._engine.fail_query(query_id, refusal)

    def _run_started(
        self, query_id: bytes, name: str, execution: Any
    ) -> QueryableStateError | None:
        """Tells the operators of a query; returns why it must not run."""
        try:
            operators = query_operators(execution)
            if not operators:
                return None
            away = optimized_away(execution)
        except Py4JError as problem:
            _log.warning("the operators of query %s are not known: %s", query_id.hex(), problem)
            return None
        if away:
            names = ", ".join(repr(operator.uid) for operator in away)
            return JobError(
                f"Spark's optimizer takes operator {names} out of the plan of the query, because "
                "what follows needs none of its rows (as limit(0)): the operator would see no "
                "record. Remove what stands behind it",
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
        config_id = next(iter(operators)).config_id
        self._started(query_id, name, config_id, layouts)
        return None

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802 - Spark's name
        progress = event.progress
        self.progressed(progress.id.bytes, progress.runId.bytes, progress.batchId)

    def progressed(self, query_id: bytes, run_id: bytes, batch_id: int) -> None:
        """A run has committed a batch."""
        self._engine.note_committed(query_id, run_id, batch_id)
        self._observer.batch_committed(query_id, batch_id)

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802 - Spark's name
        self._engine.note_ended(event.id.bytes, event.runId.bytes, event.exception)
        self._observer.refresh()

    @property
    def _jlistener(self) -> Any:
        """What Spark calls; pyspark asks for it by this name to add and to remove a listener."""
        if self._called is None:
            jvm: Any = SparkContext._jvm
            self._called = jvm.PythonStreamingQueryListenerWrapper(_SparkEvents(self))
        return self._called


class _SparkEvents(JStreamingQueryListener):
    """Takes of a progress what is needed: pyspark's own event is some hundred calls into the JVM,
    on cores that the next batch computes on."""

    def __init__(self, listener: CommitListener) -> None:
        super().__init__(listener)
        self._listener = listener

    def onQueryProgress(self, jevent: Any) -> None:  # noqa: N802 - Spark's name
        progress = jevent.progress()
        query_id, run_id = (
            uuid.UUID(identity.toString()).bytes for identity in (progress.id(), progress.runId())
        )
        self._listener.progressed(query_id, run_id, progress.batchId())

    def onQueryIdle(self, jevent: Any) -> None:  # noqa: N802 - Spark's name
        """Nothing has been committed."""
