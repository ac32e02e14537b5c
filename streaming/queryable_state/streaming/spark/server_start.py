"""Start of state servers on executors that run no task of an operator."""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from queryable_state.streaming.spark.queries.active_queries import live_executors
from queryable_state.wire.errors import QueryableStateError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pyspark import SparkContext

    from queryable_state.server.state_server.settings import StateServerSettings

_log = logging.getLogger("queryable_state.streaming")

# Spark raises these when it fails, and while it stops.
_FAILURES = (QueryableStateError, PySparkException, Py4JError, OSError, AttributeError)


@dataclass(frozen=True)
class ServerFunction:
    """A function for `foreachPartition` that starts the state server of the task's executor."""

    server: StateServerSettings
    """Template; the executor adds its id and its folder."""
    application_id: str

    def __call__(self, rows: Iterable[object]) -> None:
        # gRPC must not be imported before Spark's daemon forks its workers.
        from queryable_state.server.state_server.launch import ensure_server
        from queryable_state.streaming.spark.worker.executor import current_executor

        executor = current_executor(self.application_id)
        settings = partial(executor.settings, self.server)
        ensure_server(executor.directory(self.server.directory), settings)


class ServerStarter:
    """Starts the state servers of an application by a Spark job, one job at a time."""

    def __init__(
        self,
        context: SparkContext,
        template: Callable[[], StateServerSettings],
        *,
        is_closed: Callable[[], bool],
    ) -> None:
        self._context = context
        self._template = template
        self._is_closed = is_closed
        self._running = threading.Lock()

    def start(self) -> None:
        """Starts the job on a thread of its own, unless one runs. A failure is logged."""
        if self._running.acquire(blocking=False):
            threading.Thread(
                target=self._run, name="queryable-state-server-start", daemon=True
            ).start()

    def _run(self) -> None:
        """Runs one task per executor. Spark gives each idle executor one task; an executor that
        gets none has no server until an operator's task runs there."""
        context = self._context
        try:
            executors = live_executors(context)
            context.setJobDescription("queryable state: start state servers")
            rows = context.parallelize(range(executors), executors)
            rows.foreachPartition(ServerFunction(self._template(), context.applicationId))
        except _FAILURES as failure:
            if not self._is_closed():
                _log.warning("no state server is started before the next batch: %s", failure)
        finally:
            self._running.release()
