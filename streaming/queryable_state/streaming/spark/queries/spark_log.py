"""Filters in Spark's log for failures of jobs that this package reports in one line."""

from __future__ import annotations

import logging
import threading
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final

from py4j.protocol import Py4JError

from queryable_state.streaming.spark.queries.failure import typed_error

if TYPE_CHECKING:
    from pyspark import SparkContext

_log = logging.getLogger("queryable_state.streaming")

_FAILURES = (Py4JError, OSError, AttributeError, TypeError)
_OF_SPARK: Final = "org/apache/spark/log4j2"
_CARRIED: Final = r"\[queryable-state: \w+\]"
_FAILED_TASK: Final = r"Exception in task \d+\.\d+ in stage \d+\.\d+ \(TID \d+\).*"
_LOST_TASK: Final = rf"(?s).{{0,100}}Lost task \d+\.\d+ in stage .*{_CARRIED}.*"
_KILLED_TASK: Final = rf"(?s).{{0,100}}Lost task \d+\.\d+ in stage .*TaskKilled .*{_CARRIED}.*"


@dataclass(frozen=True)
class _Filter:
    """A filter of log4j, and the logger's configuration that has it."""

    logger: Any
    filter: Any

    def remove(self) -> None:
        try:
            self.logger.removeFilter(self.filter)
        except _FAILURES as problem:
            _log.debug("a filter of Spark's log is not removed: %r", problem)


@dataclass(frozen=True)
class _HiddenQuery:
    name: str
    filter: _Filter


class SparkLog:
    """Spark's log of one driver.

    For one failed function Spark logs its traceback up to five times, with the stack traces of the
    JVM: in the executor, for the lost task, for the tasks that are killed with it, and twice for
    the query. The filters leave out these messages, and nothing else. A program that configures
    log4j itself keeps all messages. Usable from every thread.

    Spark reports tasks that it kills a moment after their query has failed, when the program may
    have closed the application: what hides those that carry a failure of ours stays in the JVM.
    """

    _filtered_jvm: ClassVar[Any] = None
    """The JVM that has the lasting filter."""

    def __init__(self, context: SparkContext) -> None:
        self._context = context
        self._lock = threading.Lock()
        self._hidden: dict[bytes, _HiddenQuery] = {}
        self._of_tasks: list[_Filter] = []
        try:
            if _is_default(self._log4j):
                self._hide_tasks()
        except _FAILURES as problem:
            _log.debug("Spark's log is not filtered: %r", problem)

    def hide_failure(self, query_id: bytes, name: str) -> None:
        """Hides the message with which a query ends with an error; `query_ended` logs the error.

        Idempotent.
        """
        with self._lock:
            if query_id in self._hidden:
                return
            try:
                if _is_default(self._log4j):
                    identity = str(uuid.UUID(bytes=query_id))
                    text = rf"(?s)Query .*{identity}.* terminated with error.*"
                    self._hidden[query_id] = _HiddenQuery(name or identity, self._hide(text))
            except _FAILURES as problem:
                _log.debug("the log of query %r is not filtered: %r", name, problem)

    def query_ended(self, query_id: bytes, failure: str | None) -> None:
        """Logs the failure of a query whose message was hidden, and removes the filter.

        `failure` is the text of Spark's error; None: the query did not fail.
        """
        with self._lock:
            query = self._hidden.pop(query_id, None)
        if query is None:
            return
        query.filter.remove()
        if failure is not None:
            known = typed_error(failure)
            _log.error("query %r failed: %s", query.name, failure if known is None else known)

    def close(self) -> None:
        """Removes the filters, except the lasting one."""
        with self._lock:
            filters = [*(query.filter for query in self._hidden.values()), *self._of_tasks]
            self._hidden.clear()
            self._of_tasks.clear()
        if self._context._jsc is not None:
            for each in filters:
                each.remove()

    @property
    def _log4j(self) -> Any:
        jvm: Any = self._context._jvm
        return jvm.org.apache.logging.log4j

    def _hide_tasks(self) -> None:
        if str(self._context.master).startswith("local["):
            # The task has logged its error on this console.
            self._of_tasks.append(self._hide(_FAILED_TASK))
            lasting = _LOST_TASK
        else:
            lasting = _KILLED_TASK
        if SparkLog._filtered_jvm is not self._context._gateway:
            SparkLog._filtered_jvm = self._context._gateway
            self._hide(lasting)

    def _hide(self, text: str) -> _Filter:
        """Hides the messages that match an expression as a whole."""
        log4j = self._log4j
        # Not a logger of its own: Spark shows the INFO messages of those that are configured.
        root = log4j.LogManager.getContext(False).getConfiguration().getRootLogger()
        result = getattr(log4j.core, "Filter$Result")
        deny = log4j.core.filter.RegexFilter.createFilter(
            text, None, False, result.DENY, result.NEUTRAL
        )
        root.addFilter(deny)
        return _Filter(root, deny)


def _is_default(log4j: Any) -> bool:
    """True if Spark's own file configures log4j."""
    configuration = log4j.LogManager.getContext(False).getConfiguration()
    return _OF_SPARK in str(configuration.getConfigurationSource().toString())
