"""Futures, status and results of jobs, with PyFlink's names."""

from __future__ import annotations

import threading

import pytest

from queryable_state.streaming import CompletableFuture, JobExecutionResult, JobID, JobStatus


def test_a_future_of_an_operation_ends_with_its_result() -> None:
    release = threading.Event()

    def operation() -> int:
        release.wait(10)
        return 7

    future = CompletableFuture.of(operation, "seven")
    called = threading.Event()
    future.add_done_callback(lambda _: called.set())
    assert not future.done()
    assert not future.cancel()
    assert not future.cancelled()
    release.set()
    assert future.result(timeout=10) == 7
    assert called.wait(10)
    assert future.done()
    assert future.exception() is None


def test_a_future_carries_the_failure() -> None:
    future: CompletableFuture[int] = CompletableFuture.of(lambda: 1 // 0, "failure")
    assert isinstance(future.exception(timeout=10), ZeroDivisionError)
    with pytest.raises(ZeroDivisionError):
        future.result()


def test_a_completed_future_is_done() -> None:
    future = CompletableFuture.completed("x")
    assert future.done()
    assert future.result() == "x"


def test_the_status_has_pyflinks_numbers_and_ends() -> None:
    assert [status.value for status in JobStatus] == list(range(10))
    ended = {JobStatus.FAILED, JobStatus.CANCELED, JobStatus.FINISHED}
    assert {status for status in JobStatus if status.is_globally_terminal_state()} == ended
    assert {status for status in JobStatus if status.is_terminal_state()} == {
        *ended,
        JobStatus.SUSPENDED,
    }


def test_a_result_has_the_job_its_time_and_its_accumulators() -> None:
    result = JobExecutionResult(
        job_id=JobID("ab" * 16), net_runtime_ms=12, accumulators={"rows": 3}
    )
    assert str(result.get_job_id()) == "ab" * 16
    assert result.get_net_runtime() == 12
    assert result.get_all_accumulator_results() == {"rows": 3}
    assert result.get_accumulator_result("rows") == 3
    assert result.get_accumulator_result("other") is None
    assert "12 ms" in str(result)
