"""State servers on executors that run no task of an operator now."""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from queryable_state.wire.errors import QueryableStateError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from queryable_state.server.settings import StateServerSettings
    from queryable_state.streaming.spark.application import SparkApplication

_log = logging.getLogger("queryable_state.streaming")

# Spark's own, as it is asked and as it stops.
_FAILURES = (QueryableStateError, PySparkException, Py4JError, OSError, AttributeError)


@dataclass(frozen=True)
class ServerFunction:
    """For `foreachPartition`: starts the state server of the executor that runs the task."""

    server: StateServerSettings
    """Template; the executor fills in who and where it is."""
    application_id: str

    def __call__(self, rows: Iterable[object]) -> None:
        # Not before Spark's daemon has forked, as in every task.
        from queryable_state.server.state_server.launch import ensure_server
        from queryable_state.streaming.spark.worker.executor import current_executor

        settings = current_executor(self.application_id).settings(self.server)
        ensure_server(Path(settings.directory), settings)


class ServerStart:
    """Starts the state servers of an application by a Spark job, one job at a time."""

    def __init__(self, application: SparkApplication) -> None:
        self._application = application
        self._running = threading.Lock()

    def begin(self) -> None:
        """Starts the job, unless one runs; waits for nothing. A failure is logged."""
        if self._running.acquire(blocking=False):
            threading.Thread(
                target=self._run, name="queryable-state-server-start", daemon=True
            ).start()

    def _run(self) -> None:
        """One task for each executor, which Spark gives one each where all are idle; an executor
        that gets none has no server until an operator's task runs there."""
        application = self._application
        try:
            executors = application.engine.live_executors()
            context = application.context
            context.setJobDescription("queryable state: start state servers")
            rows = context.parallelize(range(executors), executors)
            rows.foreachPartition(
                ServerFunction(application.server_template, application.application_id)
            )
        except _FAILURES as failure:
            if not application.closed:
                _log.warning("no state server is started before the next batch: %s", failure)
        finally:
            self._running.release()
