"""A job that was started."""

from __future__ import annotations

import uuid
from enum import StrEnum
from typing import TYPE_CHECKING

from queryable_state.streaming.config.state_paths import absolute
from queryable_state.streaming.jobs.job_runs import JobRuns
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
    """Where a job stands."""

    RUNNING = "RUNNING"
    RESTARTING = "RESTARTING"
    """A run has failed, and the restart strategy has another one follow."""
    FINISHED = "FINISHED"
    """Ended by itself or was cancelled; its state is still served."""
    FAILED = "FAILED"


class JobClient:
    """A job started by `execute_async`: one Spark query, and those that follow it where the job is
    restarted. Usable from every thread."""

    def __init__(
        self,
        application: SparkApplication,
        name: str,
        runs: JobRuns,
        *,
        place: StatePaths,
        config: JobConfig,
    ) -> None:
        self._application = application
        self._name = name
        self._runs = runs
        self._place = place
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
        place: StatePaths,
        config: JobConfig,
    ) -> JobClient:
        """Starts a job."""
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
        return cls(application, name, runs, place=place, config=config)

    @property
    def job_id(self) -> str:
        """Id of the job and of its Spark query, 32 hex digits; stable over restarts from a
        checkpoint."""
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
        """The Spark query; of a job that is restarted, the newest one."""
        return self._runs.query

    @property
    def restarts(self) -> int:
        """How often the job was started again after a failure."""
        return self._runs.restarts

    @property
    def state_root(self) -> str:
        """URI of the folder the job's state is kept in; empty: it does not outlive its servers."""
        return self._place.root if self._config.changelog else ""

    def status(self) -> JobStatus:
        """Where the job stands now."""
        if self._runs.ended:
            return JobStatus.FINISHED if self.exception() is None else JobStatus.FAILED
        return JobStatus.RESTARTING if self._runs.restarting else JobStatus.RUNNING

    def get_job_status(self) -> JobStatus:
        """The same as `status`."""
        return self.status()

    def exception(self) -> Exception | None:
        """What the job failed of: a `QueryableStateError` where it was one, else Spark's error."""
        return self._runs.error

    def raise_if_failed(self) -> None:
        """Raises what the job failed of, if it has."""
        error = self.exception()
        if error is not None:
            raise error

    def await_termination(self, timeout_s: float | None = None) -> bool:
        """Waits until the job has ended and queries see all of it; raises what it failed of.

        A failure after which the job is restarted is no end. False: still running after
        `timeout_s`.
        """
        # Spark's own wait raises its error before ours can be found in it.
        if not self._runs.wait_ended(timeout_s):
            return False
        self.raise_if_failed()
        self._settle()
        return True

    def _settle(self) -> None:
        """Waits until the servers answer by the newest batch, of which they are told a bit later
        than Spark's own waits return."""
        progress = self.query.lastProgress
        if progress is not None:
            self._application.coordinator.settle(
                self._query_id, progress["batchId"], _SETTLE_TIMEOUT_S
            )

    def process_all_available(self) -> None:
        """Waits until all data that is there now is processed and queries see it, also over
        restarts; raises what the job failed of."""
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
        # Where nothing had to be processed, nothing but this has the stored state opened.
        self._application.coordinator.await_recovered(self._query_id, _RECOVERY_TIMEOUT_S)
        self._settle()

    def trigger_checkpoint(self, timeout_s: float = 600.0) -> CheckpointReport:
        """Takes a checkpoint now; raises a `CheckpointError` where it fails."""
        coordinator = self._application.coordinator
        made = coordinator.trigger_checkpoint(self._query_id, timeout_s)
        return next(
            report
            for report in self.checkpoints()
            if report.checkpoint_id == made.checkpoint_id and not report.savepoint
        )

    def checkpoints(self) -> list[CheckpointReport]:
        """What became of the job's newest checkpoints and savepoints, newest first."""
        return self._application.coordinator.checkpoints(self._query_id)

    def trigger_savepoint(
        self, directory: str | None = None, timeout_s: float = _SAVEPOINT_TIMEOUT_S
    ) -> str:
        """Makes a savepoint while the job runs, and answers its URI.

        Its folder is made under `directory`, else where `state.savepoints.dir` says.
        """
        return self._savepoint(directory, timeout_s, stop=False)

    def stop_with_savepoint(
        self, directory: str | None = None, timeout_s: float = _SAVEPOINT_TIMEOUT_S
    ) -> str:
        """Stops the job with a savepoint, behind which nothing was processed; answers its URI."""
        return self._savepoint(directory, timeout_s, stop=True)

    def cancel_with_savepoint(
        self, directory: str | None = None, timeout_s: float = _SAVEPOINT_TIMEOUT_S
    ) -> str:
        """Makes a savepoint and cancels the job: as `stop_with_savepoint`, then `cancel`."""
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
        """Stops the job; it is not restarted, and its state is still served until the environment
        closes.

        Where the job's checkpoints are to be deleted on cancellation, all that is kept of it is
        removed; else the same job started again goes on.
        """
        self._runs.cancel()
        if self._config.delete_on_cancellation:
            self._application.coordinator.job_cancelled(self._query_id)

    def stop(self) -> None:
        """The same as `cancel`."""
        self.cancel()

    def proxy_addresses(self) -> list[str]:
        """HOST:PORT of every proxy that answers queries now; empty before the first task."""
        return self._application.proxy_addresses()

    def proxy_address(self, timeout_s: float = 60.0) -> str:
        """HOST:PORT of a proxy, once there is one: the first task starts the first."""
        return self._application.proxy_address(timeout_s, self.raise_if_failed)

    def get_queryable_client(self, timeout_s: float = 60.0) -> QueryableStateClient:
        """A client of the job's state, to be closed by the caller; made on its event loop."""
        from queryable_state.client import QueryableStateClient

        return QueryableStateClient(*host_and_port(self.proxy_address(timeout_s)))
