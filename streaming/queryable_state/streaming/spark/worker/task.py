"""Spark task function of a stage of stateful operators."""

from __future__ import annotations

import functools
import uuid
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from pyspark import TaskContext

from queryable_state.server.process.console_log import log_to_console
from queryable_state.streaming.runtime.states.state_spec import TaskIdentity
from queryable_state.streaming.spark.queries.failure import attempt_error, failed_in_task
from queryable_state.streaming.spark.queries.query_operators import QueryOperator, to_name
from queryable_state.streaming.spark.shipped_files import tls_on_this_machine
from queryable_state.wire.errors import JobError, QueryableStateError, Reason, RetryLaterError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    import pyarrow as pa

    from queryable_state.server.state_server.settings import StateServerSettings
    from queryable_state.streaming.runtime.backend_client import BackendClient
    from queryable_state.streaming.runtime.stage import StageSpec


_QUERY_ID = "sql.streaming.queryId"
_BATCH_ID = "streaming.sql.batchId"
# Spark sets no property for the run id, but uses it as the job group of the query's thread.
_RUN_ID = "spark.jobGroup.id"

_log_to_console_once = functools.cache(log_to_console)


def task_identity(operator: str) -> TaskIdentity:
    """The identity of the task this process is running."""
    context = TaskContext.get()
    if context is None:
        raise _missing(operator, "no Spark task is running")
    query_id, batch_id, run_id = (
        context.getLocalProperty(name) for name in (_QUERY_ID, _BATCH_ID, _RUN_ID)
    )
    if not query_id or not batch_id:
        raise _missing(operator, f"Spark set {_QUERY_ID}={query_id}, {_BATCH_ID}={batch_id}")
    try:
        run = uuid.UUID(run_id or "")
    except ValueError:
        raise _missing(
            operator,
            f"its job group is {run_id!r}, not the run id of a query, so setJobGroup() was called "
            "in foreachBatch; use addJobTag() there",
        ) from None
    return TaskIdentity(
        query_id=uuid.UUID(query_id).bytes,
        run_id=run.bytes,
        batch_id=int(batch_id),
        subtask=context.partitionId(),
        task_attempt=context.taskAttemptId(),
    )


def _missing(operator: str, what: str) -> JobError:
    return JobError(
        f"operator {operator!r} runs outside a batch of a streaming query ({what}), but its state "
        "is written per batch. Start the stream with writeStream or env.execute(); for your own "
        "threads in foreachBatch use pyspark.InheritableThread",
        reason=Reason.MISSING_BATCH_ID,
    )


@dataclass(frozen=True)
class StageFunction:
    """A function for `mapped_in_arrow`: pickled in the driver, called once per task.

    gRPC must not be imported before Spark's daemon forks its workers, so modules that import it are
    imported during the call.
    """

    spec: StageSpec
    server: StateServerSettings
    """Template; the executor adds its id and its folder."""
    application_id: str

    @property
    def __name__(self) -> str:
        """The encoded operators. Spark keeps them in the query's plan; `query_operators` reads
        them."""
        return to_name(
            QueryOperator(
                uid=spec.uid,
                parallelism=spec.parallelism,
                max_parallelism=spec.max_parallelism,
                config_id=spec.config_id,
            )
            for spec in self.spec.operators
        )

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        _log_to_console_once()
        new_client: Callable[[], BackendClient] | None = None
        try:
            new_client, outputs = self._started(batches)
            yield from outputs
        except QueryableStateError as error:
            failed = failed_in_task(error)
            # Spark reports a failure after its last attempt: one that each attempt meets is known
            # earlier.
            if new_client is not None and not isinstance(error, RetryLaterError):
                new_client().report_failed(attempt_error(failed))
            raise failed from None

    def _started(
        self, batches: Iterable[pa.RecordBatch]
    ) -> tuple[Callable[[], BackendClient], Iterator[pa.RecordBatch]]:
        from queryable_state.server.state_server.launch import ensure_server
        from queryable_state.streaming.runtime.backend_client import BackendClient
        from queryable_state.streaming.runtime.stage import StageTask
        from queryable_state.streaming.spark.worker.executor import (
            current_executor,
            server_directory,
        )

        identity = task_identity(", ".join(spec.name for spec in self.spec.operators))
        executor = current_executor(self.application_id)
        directory = server_directory(self.application_id, self.server.directory)
        settings = partial(executor.settings, self.server)

        def backend_address() -> str:
            return ensure_server(directory, settings).backend

        spec = self.spec
        if self.server.tls.uses_tls:
            tls = tls_on_this_machine(self.server.tls).tls_for_calls
            spec = replace(spec, operators=tuple(replace(each, tls=tls) for each in spec.operators))
        new_client = partial(BackendClient, spec.operators[0], identity, backend_address)
        return new_client, StageTask(spec)(iter(batches), identity, backend_address)
