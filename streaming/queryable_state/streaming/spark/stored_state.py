"""A query that has started again: its stored state is opened, though no batch of it may run."""

from __future__ import annotations

import logging
import threading
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from queryable_state.wire.errors import QueryableStateError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pyspark.sql.streaming.query import StreamingQuery

    from queryable_state.server.coordinator import OperatorLayout
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
        from queryable_state.streaming.spark.executor import current_executor

        settings = current_executor(self.application_id).settings(self.server)
        ensure_server(Path(settings.directory), settings)


def open_stored(
    application: SparkApplication,
    query: StreamingQuery,
    config_id: str,
    operators: Sequence[OperatorLayout],
) -> None:
    """Has what a started query goes on from opened; waits for nothing.

    Nothing of the query fails by it: its next batch opens what is not open then.
    """
    try:
        query_id = uuid.UUID(str(query.id)).bytes
        application.coordinator.run_started(query_id, config_id, operators)
        stored = application.coordinator.recover(query_id, config_id, operators)
    except _FAILURES as failure:
        _tell(query, failure)
        return
    if stored:
        threading.Thread(
            target=_start_servers,
            args=(application, query),
            name=f"queryable-state-servers-{query.name}",
            daemon=True,
        ).start()


def _tell(query: StreamingQuery, failure: Exception) -> None:
    _log.warning(
        "the stored state of job %r can be queried from its next batch on: %s", query.name, failure
    )


def _start_servers(application: SparkApplication, query: StreamingQuery) -> None:
    """One task for each executor, which Spark gives one each where all are idle; an executor
    that gets none has no server until an operator's task runs there."""
    try:
        executors = application.engine.live_executors()
        if len(application.proxy_addresses()) >= executors:
            return
        context = application.context
        context.setJobDescription("queryable state: start state servers")
        rows = context.parallelize(range(executors), executors)
        rows.foreachPartition(
            ServerFunction(application.server_template, application.application_id)
        )
    except _FAILURES as failure:
        if not application.closed:
            _tell(query, failure)
