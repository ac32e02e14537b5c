"""Runs of a job that fail and are followed by others."""

from __future__ import annotations

import threading
import uuid
from typing import TYPE_CHECKING, Any, cast

from tests.waiting import until

from queryable_state.streaming import EnvironmentSettings, RestartStrategies
from queryable_state.streaming.config.restart_strategy import RestartDecision
from queryable_state.streaming.job_runs import JobRuns

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery


class Query:
    """Stands for one of Spark's queries: ends when it is told to."""

    def __init__(self) -> None:
        self._over = threading.Event()
        self.id = uuid.UUID(int=7)
        self.error: Exception | None = None
        self.lastProgress: dict[str, int] | None = None

    @property
    def isActive(self) -> bool:
        return not self._over.is_set()

    def fail(self, error: Exception) -> None:
        self.error = error
        self._over.set()

    def stop(self) -> None:
        self._over.set()

    def awaitTermination(self) -> None:
        self._over.wait()
        if self.error is not None:
            raise self.error


class Job:
    """Starts stand-ins, and remembers them."""

    def __init__(self, strategy: object) -> None:
        self.queries: list[Query] = []
        self.refusal: Exception | None = None
        self.told: list[str] = []
        decision = RestartDecision(
            strategy,  # type: ignore[arg-type]
            EnvironmentSettings(),
            checkpointing_enabled=False,
        )
        self.runs = JobRuns(
            "job",
            self._start,
            lambda query: cast("Any", query).error,
            decision,
            start_again=self._start,
            observer=self,
        )

    def restarts_watched(self, query_id: bytes, *, is_watched: bool) -> None:
        self.told.append(f"watched {is_watched} {query_id[-1]}")

    def restart_pending(self, query_id: bytes, at_ms: int) -> None:
        self.told.append(f"pending {at_ms > 0} {query_id[-1]}")

    def _start(self) -> StreamingQuery:
        if self.refusal is not None:
            raise self.refusal
        self.queries.append(Query())
        return cast("StreamingQuery", self.queries[-1])


TWICE = RestartStrategies.fixed_delay_restart(2, 0)
LATER = RestartStrategies.fixed_delay_restart(2, 3_600_000)
ERROR = OSError("lost")


def test_a_run_that_fails_is_followed_by_another() -> None:
    job = Job(TWICE)
    job.queries[0].fail(ERROR)
    until(lambda: len(job.queries) == 2)
    until(lambda: job.runs.query is cast("Any", job.queries[1]))
    assert not job.runs.ended
    assert job.runs.error is None
    assert job.runs.restarts == 1
    job.runs.cancel()


def test_the_last_failure_is_what_the_job_failed_of() -> None:
    job = Job(TWICE)
    for number in range(3):
        until(lambda wanted=number + 1: len(job.queries) == wanted)  # type: ignore[misc]
        job.queries[number].fail(OSError(str(number)))
    assert job.runs.wait_ended(10)
    assert str(job.runs.error) == "2"
    assert len(job.queries) == 3


def test_the_observer_knows_of_the_strategy_from_the_start_to_the_last_failure() -> None:
    job = Job(RestartStrategies.fixed_delay_restart(1, 0))
    until(lambda: job.told == ["watched True 7"])
    for number in range(2):
        until(lambda wanted=number + 1: len(job.queries) == wanted)  # type: ignore[misc]
        job.queries[number].fail(ERROR)
    until(lambda: job.told[-1] == "watched False 7")
    assert job.told[1:-1] == ["pending True 7", "pending False 7"]
    without = Job(RestartStrategies.no_restart())
    without.queries[0].fail(ERROR)
    assert without.runs.ended
    assert not without.told


def test_a_run_that_ends_by_itself_is_the_end() -> None:
    job = Job(TWICE)
    job.queries[0].stop()
    assert job.runs.wait_ended(10)
    assert job.runs.error is None
    assert len(job.queries) == 1


def test_a_cancelled_job_is_not_restarted() -> None:
    job = Job(TWICE)
    job.runs.cancel()
    assert job.runs.ended
    assert len(job.queries) == 1


def test_a_job_is_cancelled_while_it_waits_for_its_restart() -> None:
    job = Job(LATER)
    job.queries[0].fail(ERROR)
    until(lambda: job.runs.restarting)
    job.runs.cancel()
    assert job.runs.ended
    assert job.runs.error is None
    assert len(job.queries) == 1


def test_a_restart_that_cannot_start_counts_as_a_failure() -> None:
    job = Job(TWICE)
    job.refusal = OSError("no checkpoint folder")
    job.queries[0].fail(ERROR)
    assert job.runs.wait_ended(10)
    assert job.runs.error is job.refusal


def test_waiting_for_the_next_run_tells_whether_there_is_one() -> None:
    job = Job(RestartStrategies.fixed_delay_restart(1, 0))
    first = job.runs.query
    job.queries[0].fail(ERROR)
    assert job.runs.wait_next(first)
    second = job.runs.query
    job.queries[1].fail(ERROR)
    assert not job.runs.wait_next(second)


def test_without_restarts_no_thread_watches() -> None:
    before = threading.active_count()
    job = Job(RestartStrategies.no_restart())
    assert threading.active_count() == before
    job.queries[0].fail(ERROR)
    assert job.runs.ended
    assert job.runs.error is ERROR
    assert not job.runs.restarting
