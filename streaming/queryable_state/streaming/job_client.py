"""A job that was started."""

from __future__ import annotations

import time
import uuid
from enum import StrEnum
from typing import TYPE_CHECKING

from queryable_state.streaming.spark.failure import failure_of

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

    from queryable_state.client import QueryableStateClient
    from queryable_state.streaming.spark.application import SparkApplication

_POLL_S = 0.05
_SETTLE_TIMEOUT_S = 5.0


class JobStatus(StrEnum):
    """Where a job stands."""

    RUNNING = "RUNNING"
    FINISHED = "FINISHED"
    """Ended by itself or was cancelled; its state is still served."""
    FAILED = "FAILED"


class JobClient:
    """A job started by `execute_async`: one Spark query. Usable from every thread."""

    def __init__(self, application: SparkApplication, query: StreamingQuery, name: str) -> None:
        self._application = application
        self._query = query
        self._name = name

    @property
    def job_id(self) -> str:
        """Id of the job and of its Spark query, 32 hex digits; stable over restarts from a
        checkpoint."""
        return uuid.UUID(str(self._query.id)).hex

    def get_job_id(self) -> str:
        """The same as `job_id`."""
        return self.job_id

    @property
    def name(self) -> str:
        """The job's name."""
        return self._name

    @property
    def query(self) -> StreamingQuery:
        """The Spark query."""
        return self._query

    def status(self) -> JobStatus:
        """Where the job stands now."""
        if self._query.isActive:
            return JobStatus.RUNNING
        return JobStatus.FINISHED if self.exception() is None else JobStatus.FAILED

    def get_job_status(self) -> JobStatus:
        """The same as `status`."""
        return self.status()

    def exception(self) -> Exception | None:
        """What the job failed of: a `QueryableStateError` where it was one, else Spark's error."""
        if self._query.isActive:
            return None
        stopped_for = self._application.engine.stop_reason(uuid.UUID(str(self._query.id)).bytes)
        return stopped_for or failure_of(self._query)

    def raise_if_failed(self) -> None:
        """Raises what the job failed of, if it has."""
        error = self.exception()
        if error is not None:
            raise error

    def await_termination(self, timeout_s: float | None = None) -> bool:
        """Waits until the job has ended and queries see all of it; raises what it failed of.

        False: still running after `timeout_s`.
        """
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        # Spark's own wait raises its error before ours can be found in it.
        while self._query.isActive:
            if deadline is not None and time.monotonic() >= deadline:
                return False
            time.sleep(_POLL_S)
        self.raise_if_failed()
        self._settle()
        return True

    def _settle(self) -> None:
        """Waits until the servers answer by the newest batch, of which they are told a bit later
        than Spark's own waits return."""
        progress = self._query.lastProgress
        if progress is not None:
            query_id = uuid.UUID(str(self._query.id)).bytes
            self._application.coordinator.settle(query_id, progress["batchId"], _SETTLE_TIMEOUT_S)

    def process_all_available(self) -> None:
        """Waits until all data that is there now is processed and queries see it; raises what the
        job failed of."""
        try:
            self._query.processAllAvailable()
        except Exception:
            self.raise_if_failed()
            raise
        self.raise_if_failed()
        self._settle()

    def cancel(self) -> None:
        """Stops the job; its state is still served until the environment closes."""
        self._query.stop()

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

        host, _, port = self.proxy_address(timeout_s).rpartition(":")
        return QueryableStateClient(host.strip("[]"), int(port))
