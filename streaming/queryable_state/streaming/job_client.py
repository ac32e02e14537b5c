"""Client for a job that this driver started."""

from __future__ import annotations

import uuid
from enum import StrEnum
from typing import TYPE_CHECKING

from queryable_state.streaming.config.state_paths import absolute
from queryable_state.streaming.job_runs import JobRuns
from queryable_state.streaming.spark.queries.failure import failure_of
from queryable_state.wire.addresses import host_and_port

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql.streaming.query import StreamingQuery

    from queryable_state.client import QueryableStateClient
    from queryable_state.server.coordinator.checkpoints.history import CheckpointReport
    from queryable_state.server.coordinator.model.job_config import JobConfig
    from queryable_state.streaming.config.restart_strategy import RestartDecision
    from queryable_state.streaming.config.state_paths import StatePaths
    from queryable_state.streaming.spark.application import SparkApplication

_SETTLE_TIMEOUT_S = 5.0
_RECOVERY_TIMEOUT_S = 30.0
_SAVEPOINT_TIMEOUT_S = 600.0


class JobStatus(StrEnum):
    """Status of a job."""

    RUNNING = "RUNNING"
    RESTARTING = "RESTARTING"
    """A run has failed, and the restart strategy restarts the job."""
    FINISHED = "FINISHED"
    """The job ended without an error or was cancelled; its state is still served."""
    FAILED = "FAILED"


class JobClient:
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
        self._application = application
        self._name = name
        self._runs = runs
        self._paths = paths
        self._config = config
        self._query_id = uuid.UUID(str(runs.query.id)).bytes

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
        adapter = application.adapter

        def error_of(query: StreamingQuery) -> Exception | None:
            return adapter.stop_reason(uuid.UUID(str(query.id)).bytes) or failure_of(query)

        def start_again() -> StreamingQuery:
            adapter.forget_stop(uuid.UUID(str(runs.query.id)).bytes)
            return start()

        runs = JobRuns(
            name,
            start,
            error_of,
            decision,
            start_again=start_again,
            is_over=lambda: application.closed,
        )
        return cls(application, name, runs, paths=paths, config=config)

    @property
    def job_id(self) -> str:
        """Id of the job and of its Spark query, 32 hex digits. A restart from a checkpoint keeps
        it."""
        return self._query_id.hex()

    def get_job_id(self) -> str:
        """The same as `job_id`."""
        return self.job_id

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
            return JobStatus.FINISHED if self.exception() is None else JobStatus.FAILED
        return JobStatus.RESTARTING if self._runs.restarting else JobStatus.RUNNING

    def get_job_status(self) -> JobStatus:
        """The same as `status`."""
        return self.status()

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
        self._settle()
        return True

    def _settle(self) -> None:
        """Waits until the servers serve the newest batch: the commit reaches them after Spark's own
        waits return."""
        progress = self.query.lastProgress
        if progress is not None:
            self._application.coordinator.settle(
                self._query_id, progress["batchId"], _SETTLE_TIMEOUT_S
            )

    def process_all_available(self) -> None:
        """Waits until all currently available data is processed and visible to queries, across
        restarts; raises the failure of the job."""
        while True:
            query = self.query
            try:
                query.processAllAvailable()
            except Exception:
                if self._runs.wait_next(query):
                    continue
                self.raise_if_failed()
                raise
            if not query.isActive and self._runs.wait_next(query):
                continue
            break
        self.raise_if_failed()
        # If there was nothing to process, no task has opened the stored state.
        self._application.coordinator.await_recovered(self._query_id, _RECOVERY_TIMEOUT_S)
        self._settle()

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

    def trigger_savepoint(
        self, directory: str | None = None, timeout_s: float = _SAVEPOINT_TIMEOUT_S
    ) -> str:
        """Takes a savepoint while the job runs, and returns its URI.

        Its folder is created under `directory`, by default under `state.savepoints.dir`.
        """
        return self._savepoint(directory, timeout_s, stop=False)

    def stop_with_savepoint(
        self, directory: str | None = None, timeout_s: float = _SAVEPOINT_TIMEOUT_S
    ) -> str:
        """Stops the job, takes a savepoint of its last batch, and returns the savepoint's URI."""
        return self._savepoint(directory, timeout_s, stop=True)

    def cancel_with_savepoint(
        self, directory: str | None = None, timeout_s: float = _SAVEPOINT_TIMEOUT_S
    ) -> str:
        """Takes a savepoint and cancels the job: `stop_with_savepoint`, then `cancel`."""
        uri = self.stop_with_savepoint(directory, timeout_s)
        self.cancel()
        return uri

    def _savepoint(self, directory: str | None, timeout_s: float, *, stop: bool) -> str:
        where = "" if directory is None else absolute(directory)
        uri, _ = self._application.coordinator.trigger_savepoint(
            self.job_id, where, stop=stop, timeout_s=timeout_s
        )
        if stop:
            self._runs.cancel()
        return uri

    def cancel(self) -> None:
        """Stops the job without a restart. Its state is served until the environment closes.

        With `DELETE_ON_CANCELLATION` the job's checkpoints and stored state are deleted; else the
        same job continues from them when it is started again.
        """
        self._runs.cancel()
        if self._config.delete_on_cancellation:
            self._application.coordinator.job_cancelled(self._query_id)

    def stop(self) -> None:
        """The same as `cancel`."""
        self.cancel()

    def proxy_addresses(self) -> list[str]:
        """HOST:PORT of every live proxy; empty before the first task."""
        return self._application.proxy_addresses()

    def proxy_address(self, timeout_s: float = 60.0) -> str:
        """HOST:PORT of a proxy; waits for the first task, which starts the first proxy."""
        return self._application.proxy_address(timeout_s, self.raise_if_failed)

    def get_queryable_client(self, timeout_s: float = 60.0) -> QueryableStateClient:
        """A client for the job's state, bound to the calling event loop; the caller closes it."""
        from queryable_state.client import QueryableStateClient

        return QueryableStateClient(*host_and_port(self.proxy_address(timeout_s)))
