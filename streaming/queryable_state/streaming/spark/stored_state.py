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
    """Has what a started query goes on from opened; returns at once.

    Nothing of the query waits for it or fails by it: its first batch opens what is not open then.
    """
    threading.Thread(
        target=_open_stored,
        args=(application, query, config_id, operators),
        name=f"queryable-state-stored-{query.name}",
        daemon=True,
    ).start()


def _open_stored(
    application: SparkApplication,
    query: StreamingQuery,
    config_id: str,
    operators: Sequence[OperatorLayout],
) -> None:
    try:
        query_id = uuid.UUID(str(query.id)).bytes
        if application.coordinator.recover(query_id, config_id, operators):
            _start_servers(application)
    except (QueryableStateError, PySparkException, Py4JError, OSError, AttributeError) as failure:
        if not application.closed:
            _log.warning(
                "the stored state of job %r can be queried from its next batch on: %s",
                query.name,
                failure,
            )


def _start_servers(application: SparkApplication) -> None:
    """One task for each executor, which Spark gives one each where all are idle; an executor
    that gets none has no server until an operator's task runs there."""
    executors = application.engine.live_executors()
    if len(application.proxy_addresses()) >= executors:
        return
    context = application.context
    context.setJobDescription("queryable state: start state servers")
    tasks = context.parallelize(range(executors), executors)
    tasks.foreachPartition(ServerFunction(application.server_template, application.application_id))
