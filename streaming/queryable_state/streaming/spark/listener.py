"""Tells the coordinator what Spark says of its queries."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from pyspark.sql.streaming.listener import StreamingQueryListener

if TYPE_CHECKING:
    from pyspark.sql.streaming.listener import (
        QueryIdleEvent,
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

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802 - Spark's name
        self._engine.note_started(event.id.bytes, event.runId.bytes, event.name or "")
        # Spark waits for this before it looks for the first batch.
        refusal = self._engine.sink_refusal(event.id.bytes)
        if refusal is not None:
            self._engine.fail_query(event.id.bytes, refusal)

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802 - Spark's name
        query_id, batch_id = event.progress.id.bytes, event.progress.batchId
        self._engine.note_committed(query_id, event.progress.runId.bytes, batch_id)
        self._observer.batch_committed(query_id, batch_id)

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802 - Spark's name
        """Nothing has been committed."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802 - Spark's name
        self._engine.note_ended(event.id.bytes, event.runId.bytes, event.exception)
        self._observer.refresh()
