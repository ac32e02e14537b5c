"""Client for a job that this driver started."""

from __future__ import annotations

import logging
import threading
import time
import uuid
from typing import TYPE_CHECKING, Any

from queryable_state.server.checkpoint.file_systems.storage_factory import storage_of
from queryable_state.streaming.execution.job_result import (
    CompletableFuture,
    JobExecutionResult,
    JobID,
    JobStatus,
)
from queryable_state.streaming.job_runs import JobRuns
from queryable_state.streaming.spark.job_addresses import JobAddresses
from queryable_state.streaming.spark.queries.batch_reports import executed_batch
from queryable_state.streaming.spark.queries.failure import failure_of
from queryable_state.wire.errors import JobError, QueryableStateError

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql.streaming.query import StreamingQuery

    from queryable_state.server.coordinator.checkpoints.history import CheckpointReport
    from queryable_state.server.coordinator.model.job_config import JobConfig
    from queryable_state.streaming.config.restart_strategy import RestartDecision
    from queryable_state.streaming.config.state_paths import StatePaths
    from queryable_state.streaming.spark.application import SparkApplication

_log = logging.getLogger("queryable_state.streaming")

# A busy machine takes as long to replace a state server.
_SETTLE_TIMEOUT_S = 60.0
_SETTLE_AT_END_S = 5.0
_RECOVERY_TIMEOUT_S = 30.0


class JobClient(JobAddresses):
    """A job started by `execute_async`: one Spark query at a time, a new one after each restart.
    Usable from every thread."""

    def __init__(
        self,
        application: SparkApplication,
        name: str,
        runs: JobRuns,
        *,
        paths: StatePaths,
        config: JobConfig,
    ) -> None:
        super().__init__(application, name, runs, config)
        self._paths = paths
        self._lock = threading.Lock()
        self._started_at = time.monotonic()
        self._net_runtime_ms: int | None = None

    @classmethod
    def started(
        cls,
        application: SparkApplication,
        name: str,
        start: Callable[[], StreamingQuery],
        decision: RestartDecision,
        *,
        paths: StatePaths,
        config: JobConfig,
    ) -> JobClient:
        """Starts the first query of a job and returns the job's client."""
        adapter, coordinator = application.adapter, application.coordinator

        def error_of(query: StreamingQuery) -> Exception | None:
            return adapter.stop_reason(uuid.UUID(str(query.id)).bytes) or failure_of(query)

        def start_again() -> StreamingQuery:
            adapter.forget_stop(runs.query_id)
            return start()

        runs = JobRuns(
            name,
            start,
            error_of,
            decision,
            start_again=start_again,
            is_over=lambda: application.closed,
            observer=coordinator,
        )
        return cls(application, name, runs, paths=paths, config=config)

    @property
    def job_id(self) -> str:
        """Id of the job and of its Spark query, 32 hex digits. A restart from a checkpoint keeps
        it."""
        return self._query_id.hex()

    def get_job_id(self) -> JobID:
        """The same as `job_id`."""
        return JobID(self.job_id)

    @property
    def name(self) -> str:
        """The job's name."""
        return self._name

    @property
    def query(self) -> StreamingQuery:
        """The newest Spark query of the job."""
        return self._runs.query

    @property
    def restarts(self) -> int:
        """Number of restarts after failures."""
        return self._runs.restarts

    @property
    def state_root(self) -> str:
        """URI of the job's state folder; empty if the state does not outlive its servers."""
        return self._paths.root if self._config.changelog else ""

    def status(self) -> JobStatus:
        """The current status."""
        if self._runs.ended:
            if self.exception() is not None:
                return JobStatus.FAILED
            return JobStatus.CANCELED if self._cancelled else JobStatus.FINISHED
        return JobStatus.RESTARTING if self._runs.restarting else JobStatus.RUNNING

    def get_job_status(self) -> CompletableFuture[JobStatus]:
        """A future of `status`."""
        return CompletableFuture.completed(self.status())

    def get_accumulators(self) -> CompletableFuture[dict[str, Any]]:
        """A future of the accumulators: none, because Python functions cannot define any."""
        return CompletableFuture.completed({})

    def get_job_execution_result(self) -> CompletableFuture[JobExecutionResult]:
        """A future that ends with the job: with its result, or with the failure of the job; a
        JobError if the job was cancelled."""
        return CompletableFuture.of(self.await_result, f"result-{self._name}")

    def await_result(self) -> JobExecutionResult:
        """Waits for the end of the job and returns its result; raises its failure, or JobError if
        it was cancelled."""
        self.await_termination()
        if self._cancelled:
            raise JobError(f"job {self._name!r} ({self.job_id}) was cancelled, so it has no result")
        return JobExecutionResult(job_id=self.get_job_id(), net_runtime_ms=self._net_runtime())

    def _net_runtime(self) -> int:
        """Milliseconds from the start to the first call after the end."""
        with self._lock:
            if self._net_runtime_ms is None:
                self._net_runtime_ms = round((time.monotonic() - self._started_at) * 1000)
            return self._net_runtime_ms

    def exception(self) -> Exception | None:
        """The failure of the job: a `QueryableStateError` if one caused it, else Spark's error;
        None if the job has not failed."""
        return self._runs.error

    def raise_if_failed(self) -> None:
        """Raises the failure of the job, if any."""
        error = self.exception()
        if error is not None:
            raise error

    def await_termination(self, timeout_s: float | None = None) -> bool:
        """Waits until the job has ended and queries see its last batch; raises its failure.

        A failure that is followed by a restart does not end the job. Returns False if the job is
        still running after `timeout_s`.
        """
        # Spark's own wait would raise its error before `error_of` can find ours in it.
        if not self._runs.wait_ended(timeout_s):
            return False
        self.raise_if_failed()
        self._settle(_SETTLE_AT_END_S)
        return True

    def _settle(self, timeout_s: float) -> bool:
        """Waits until the servers serve the newest batch: the commit reaches them after Spark's own
        waits return. False, and a line in the log, if they do not in time."""
        batch_id = executed_batch(self.query)
        if batch_id is None:
            return True
        if self._application.coordinator.settle(self._query_id, batch_id, timeout_s):
            return True
        _log.warning(
            "job %s: not all state servers serve batch %d after %g s; queries may still get an "
            "earlier one",
            self.job_id,
            batch_id,
            timeout_s,
        )
        return False

    def process_all_available(self) -> None:
        """Waits until all currently available data is processed, with the windows and event-time
        timers that it makes due, and visible to queries, across restarts; raises the failure of the
        job."""
        while True:
            query = self._processed()
            self.raise_if_failed()
            # If there was nothing to process, no task has opened the stored state.
            coordinator = self._application.coordinator
            coordinator.await_recovered(self._query_id, _RECOVERY_TIMEOUT_S)
            if not self._settle(_SETTLE_TIMEOUT_S) or not query.isActive:
                return
            # Spark's wait also ends while it is not known whether a batch without input follows.
            if not coordinator.owes_batch(self._query_id):
                return

    def _processed(self) -> StreamingQuery:
        """Waits until the newest run has no more input; returns it."""
        while True:
            query = self.query
            try:
                query.processAllAvailable()
            except Exception:
                if self._runs.wait_next(query):
                    continue
                self.raise_if_failed()
                raise
            if query.isActive or not self._runs.wait_next(query):
                return query

    def trigger_checkpoint(self, timeout_s: float = 600.0) -> CheckpointReport:
        """Takes a checkpoint now; raises a `CheckpointError` if it fails."""
        coordinator = self._application.coordinator
        made = coordinator.trigger_checkpoint(self._query_id, timeout_s)
        return next(
            report
            for report in self.checkpoints()
            if report.checkpoint_id == made.checkpoint_id and not report.savepoint
        )

    def checkpoints(self) -> list[CheckpointReport]:
        """Reports on the job's latest checkpoints and savepoints, newest first."""
        return self._application.coordinator.checkpoints(self._query_id)

    def cancel(self) -> CompletableFuture[None]:
        """Stops the job without a restart. Its state is served until the environment closes.

        With `DELETE_ON_CANCELLATION` the job's checkpoints and stored state are deleted; else the
        same job continues from them when it is started again. The call returns when the job has
        ended, so that the same job can be started at once; the future is done.
        """
        if not self._runs.ended:
            self._cancelled = True
            self._runs.cancel()
        self._delete_cancelled()
        return CompletableFuture.completed(None)

    def _discard(self) -> None:
        """Cancels a job that nobody can start again, and removes all that is stored of it.

        A failed job keeps its files, which may show the cause; a WARNING names the folder.
        """
        self.cancel()
        paths = self._paths
        folder = paths.state_root if paths.owned else paths.spark_location
        if folder is None:
            return
        if self.exception() is not None:
            _log.warning(
                "job %r has failed, and its files are kept in %s: remove the folder once the "
                "cause is found, because the job cannot be started again",
                self._name,
                folder,
            )
            return
        try:
            if not self._application.closed:
                self._application.coordinator.job_cancelled(self._query_id, discards=True)
            storage_of(folder, self._config.storage_options).delete_tree(folder)
        except QueryableStateError as problem:
            _log.warning(
                "the files of job %r are not removed from %s, where nobody needs them: %s",
                self._name,
                folder,
                problem,
            )

    def stop(self) -> None:
        """Same as `cancel`, without a future."""
        self.cancel()

    def __repr__(self) -> str:
        if self._application.closed:
            return f"<JobClient: {self._name!r}, whose environment is closed, id {self.job_id}>"
        batch_id = executed_batch(self.query)
        batch = "" if batch_id is None else f", batch {batch_id}"
        restarts = f", {self.restarts} restarts" if self.restarts else ""
        return (
            f"<JobClient: {self._name!r} {self.status().name}{batch}{restarts}, id {self.job_id}>"
        )
