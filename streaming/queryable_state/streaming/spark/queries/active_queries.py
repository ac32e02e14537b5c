"""Access to the active streaming queries of a SparkContext in the JVM."""

from __future__ import annotations

import logging
import threading
import time
import uuid
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError

from queryable_state.streaming.spark.queries.failure import to_be_carried
from queryable_state.wire.errors import RetryLaterError

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    from queryable_state.wire.errors import QueryableStateError

_log = logging.getLogger("queryable_state.streaming")

RETRY_AFTER_MS = 100
_END_POLL_S = 0.02


class ActiveQueries:
    """Spark's registry of active queries, which spans the sessions of a SparkContext.

    An execution is the JVM's `StreamExecution` of a query. Usable from every thread.
    """

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._context = spark.sparkContext
        self._uuid_class: Any = None

    def execution(self, query_id: bytes) -> Any:
        """The execution of an active query; None if it is not active or Spark has stopped."""
        context = self._context
        if context._jsc is None:
            return None
        try:
            jvm_id = self._uuids(context).fromString(str(uuid.UUID(bytes=query_id)))
            return self._spark._jsparkSession.sharedState().activeStreamingQueries().get(jvm_id)
        except (Py4JError, AttributeError, OSError) as problem:
            raise RetryLaterError(
                f"Spark does not answer: {problem}", retry_after_ms=RETRY_AFTER_MS
            ) from problem

    def mark_error(self, execution: Any, error: QueryableStateError) -> bool:
        """Makes a query fail with an error before its next batch; False if Spark refuses."""
        try:
            jvm: Any = self._context._jvm
            text = str(to_be_carried(error)) + "\n" + "\n".join(error.__notes__)
            cause = jvm.java.lang.IllegalStateException(f"{type(error).__name__}: {text}")
            execution.errorNotifier().markError(cause)
        except (Py4JError, OSError) as problem:
            _log.warning("the error of a failed query cannot be passed to Spark: %s", problem)
            return False
        return True

    def stop(self, execution: Any, query_id: bytes, after_s: float = 0.0) -> None:
        """Stops a query on a thread of its own, unless it ends by itself within `after_s`."""
        threading.Thread(
            target=_stop, args=(execution, query_id, after_s), name="stop-query", daemon=True
        ).start()

    def _uuids(self, context: SparkContext) -> Any:
        """The JVM's class UUID, cached: a lookup by name takes the JVM milliseconds."""
        if self._uuid_class is None:
            jvm: Any = context._jvm
            self._uuid_class = jvm.java.util.UUID
        return self._uuid_class


def _stop(execution: Any, query_id: bytes, after_s: float) -> None:
    give_up_s = time.monotonic() + after_s
    try:
        while execution.isActive() and time.monotonic() < give_up_s:
            time.sleep(_END_POLL_S)
        execution.stop()
    except (Py4JError, OSError) as problem:
        _log.error("query %s could not be stopped: %s", query_id.hex(), problem)


def live_executors(context: SparkContext) -> int:
    """Number of executors now, at least 1: in local mode the driver runs the tasks."""
    try:
        jsc: Any = context._jsc
        return max(1, int(jsc.sc().getExecutorMemoryStatus().size()) - 1)
    except (Py4JError, AttributeError):
        return 1
