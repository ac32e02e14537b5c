"""Tells the coordinator what Spark says of its queries."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any, Protocol

from pyspark import SparkContext
from pyspark.sql.streaming.listener import JStreamingQueryListener, StreamingQueryListener

if TYPE_CHECKING:
    from pyspark.sql.streaming.listener import (
        QueryProgressEvent,
        QueryStartedEvent,
        QueryTerminatedEvent,
    )

    from queryable_state.streaming.spark.engine import SparkEngine


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

    def __init__(self, engine: SparkEngine, observer: QueryObserver) -> None:
        self._engine = engine
        self._observer = observer
        self._called: Any = None

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802 - Spark's name
        self._engine.note_started(event.id.bytes, event.runId.bytes, event.name or "")
        # Spark waits for this before it looks for the first batch.
        refusal = self._engine.sink_refusal(event.id.bytes)
        if refusal is not None:
            self._engine.fail_query(event.id.bytes, refusal)

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
