"""Results of a job, with PyFlink's names: futures, job status, job id and execution result."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_T = TypeVar("_T")


class JobID(str):
    """Id of a job, 32 hex digits."""

    __slots__ = ()


class JobStatus(Enum):
    """Status of a job. A job of this library has one of RUNNING, RESTARTING, FINISHED, CANCELED
    and FAILED; the others are Flink's."""

    CREATED = 0
    RUNNING = 1
    FAILING = 2
    FAILED = 3
    CANCELLING = 4
    CANCELED = 5
    """The job was cancelled; its state is still served."""
    FINISHED = 6
    """The job ended without an error; its state is still served."""
    RESTARTING = 7
    """A run has failed, and the restart strategy restarts the job."""
    SUSPENDED = 8
    RECONCILING = 9

    def is_globally_terminal_state(self) -> bool:
        """True if the job has ended."""
        return self in (JobStatus.FAILED, JobStatus.CANCELED, JobStatus.FINISHED)

    def is_terminal_state(self) -> bool:
        """True if the job has ended in this driver."""
        return self.is_globally_terminal_state() or self is JobStatus.SUSPENDED


class CompletableFuture(Future[_T], Generic[_T]):
    """A `concurrent.futures.Future`: `result`, `exception`, `done`, `cancel`, `cancelled` and
    `add_done_callback`. An operation that runs cannot be cancelled."""

    @classmethod
    def completed(cls, value: _T) -> CompletableFuture[_T]:
        """A future that has its result."""
        future: CompletableFuture[_T] = cls()
        future.set_result(value)
        return future

    @classmethod
    def of(cls, operation: Callable[[], _T], name: str) -> CompletableFuture[_T]:
        """A future of an operation that starts now, on a daemon thread of this name."""
        future: CompletableFuture[_T] = cls()
        future.set_running_or_notify_cancel()

        def run() -> None:
            try:
                result = operation()
            except BaseException as failure:  # noqa: BLE001 - the future carries it
                future.set_exception(failure)
            else:
                future.set_result(result)

        threading.Thread(target=run, name=f"queryable-state-{name}", daemon=True).start()
        return future


@dataclass(frozen=True, kw_only=True)
class JobExecutionResult:
    """The result of a job that ended without an error."""

    job_id: JobID
    net_runtime_ms: int
    accumulators: Mapping[str, Any] = field(default_factory=dict)

    def get_job_id(self) -> JobID:
        """Id of the job."""
        return self.job_id

    def get_net_runtime(self) -> int:
        """Milliseconds between the start and the end of the job."""
        return self.net_runtime_ms

    def get_accumulator_result(self, accumulator_name: str) -> Any:
        """The value of an accumulator; None if there is none of this name."""
        return self.accumulators.get(accumulator_name)

    def get_all_accumulator_results(self) -> dict[str, Any]:
        """The values of all accumulators."""
        return dict(self.accumulators)

    def __str__(self) -> str:
        return (
            f"Job {self.job_id} ended after {self.net_runtime_ms} ms with "
            f"{len(self.accumulators)} accumulators"
        )
