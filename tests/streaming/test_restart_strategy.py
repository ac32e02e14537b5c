"""When a job that failed is started again."""

from __future__ import annotations

from datetime import timedelta

import pytest

from queryable_state.streaming import EnvironmentSettings, RestartStrategies
from queryable_state.streaming.config.restart_strategy import Failure, RestartDecision
from queryable_state.wire.errors import (
    CheckpointError,
    InvalidRequestError,
    JobError,
    Reason,
    RestoreMismatchError,
    SupersededError,
)

LOST = OSError("the disk is gone")
MISTAKE = JobError("division by zero", reason=Reason.USER_FUNCTION_FAILED)


def decision(
    strategy: object = None, *, enabled: bool = False, **settings: object
) -> RestartDecision:
    return RestartDecision(
        strategy or RestartStrategies.fall_back_restart(),  # type: ignore[arg-type]
        EnvironmentSettings(**settings),  # type: ignore[arg-type]
        checkpointing_enabled=enabled,
    )


def delays(
    decision: RestartDecision,
    error: BaseException,
    times_ms: list[int],
    *,
    progressed: bool = False,
) -> list[int | None]:
    return [
        decision.delay_ms(Failure(error=error, at_ms=at_ms, progressed=progressed))
        for at_ms in times_ms
    ]


def test_without_checkpointing_a_job_stays_failed() -> None:
    assert not decision().may_restart
    assert delays(decision(), LOST, [0]) == [None]


def test_with_checkpointing_a_job_is_restarted_without_limit() -> None:
    assert decision(enabled=True).may_restart
    assert delays(decision(enabled=True), LOST, [0] * 100) == [1000] * 100


def test_no_restart_is_no_restart() -> None:
    assert not decision(RestartStrategies.no_restart(), enabled=True).may_restart


def test_a_fixed_delay_has_so_many_attempts() -> None:
    strategy = RestartStrategies.fixed_delay_restart(2, timedelta(seconds=3))
    assert delays(decision(strategy), LOST, [0, 1, 2]) == [3000, 3000, None]


def test_a_failure_rate_counts_within_its_interval() -> None:
    strategy = RestartStrategies.failure_rate_restart(2, 100, 7)
    assert delays(decision(strategy), LOST, [0, 50, 100, 201, 202, 203]) == [7, 7, 7, 7, 7, None]


def test_the_strategy_may_be_configured() -> None:
    fixed = decision(restart_strategy="fixed-delay", restart_attempts=1, restart_delay_ms=5)
    assert delays(fixed, LOST, [0, 1]) == [5, None]
    rate = decision(restart_strategy="failure-rate", restart_failure_delay_ms=6)
    assert delays(rate, LOST, [0, 70_000]) == [6, 6]
    assert not decision(restart_strategy="off", enabled=True).may_restart
    own = decision(RestartStrategies.fixed_delay_restart(1, 2), restart_strategy="none")
    assert delays(own, LOST, [0]) == [2]


@pytest.mark.parametrize(
    "error",
    [
        JobError("one name twice", reason=Reason.DUPLICATE_NAME),
        RestoreMismatchError("another job's"),
        InvalidRequestError("no such column"),
        SupersededError("another driver runs the job", reason=Reason.FENCED),
    ],
)
def test_what_would_fail_again_is_not_retried(error: Exception) -> None:
    strategy = RestartStrategies.fixed_delay_restart(10, 0)
    assert delays(decision(strategy), error, [0]) == [None]
    assert delays(decision(enabled=True), error, [0]) == [None]


def test_what_may_pass_is_retried() -> None:
    assert delays(decision(enabled=True), CheckpointError("disk full"), [0]) == [1000]


def test_the_default_gives_up_on_a_function_that_keeps_failing_in_one_batch() -> None:
    assert delays(decision(enabled=True), MISTAKE, [0, 0, 0]) == [1000, 1000, None]


def test_a_function_that_fails_in_another_batch_is_retried() -> None:
    assert delays(decision(enabled=True), MISTAKE, [0] * 9, progressed=True) == [1000] * 9


def test_a_strategy_that_was_chosen_retries_a_failing_function_as_often_as_it_says() -> None:
    strategy = RestartStrategies.fixed_delay_restart(5, 0)
    assert delays(decision(strategy), MISTAKE, [0] * 6) == [0] * 5 + [None]


def test_strategies_describe_themselves() -> None:
    fixed = RestartStrategies.fixed_delay_restart(2, 3)
    assert "3 ms" in fixed.get_description()
    assert isinstance(fixed, RestartStrategies.FixedDelayRestartStrategyConfiguration)
    assert fixed.get_restart_attempts() == 2
    assert fixed.get_delay_between_attempts_interval() == timedelta(milliseconds=3)
    rate = RestartStrategies.failure_rate_restart(2, 3, 4)
    assert isinstance(rate, RestartStrategies.FailureRateRestartStrategyConfiguration)
    assert (rate.get_max_failure_rate(), rate.get_failure_interval()) == (
        2,
        timedelta(milliseconds=3),
    )
    assert fixed == RestartStrategies.fixed_delay_restart(2, timedelta(milliseconds=3))


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(InvalidRequestError, match="restart_attempts"):
        RestartStrategies.fixed_delay_restart(-1, 0)
    with pytest.raises(InvalidRequestError, match="delay_between_attempts"):
        RestartStrategies.fixed_delay_restart(1, "soon")  # type: ignore[arg-type]
    with pytest.raises(InvalidRequestError, match="at least 1"):
        RestartStrategies.failure_rate_restart(0, 1, 0)
    with pytest.raises(InvalidRequestError, match="one of none"):
        decision(restart_strategy="sometimes")
