"""When checkpoints are due, by a clock that is told."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from queryable_state.server.coordinator import JobConfig
from queryable_state.server.coordinator.checkpoints.checkpointer import CheckpointSchedule


def schedule(
    *,
    interval_ms: int = 10_000,
    pause_ms: int = 0,
    tolerable: int = -1,
    age_s: float = 0.0,
    version: int = -1,
) -> CheckpointSchedule:
    config = JobConfig(
        checkpoint_interval_ms=interval_ms, min_pause_ms=pause_ms, tolerable_failures=tolerable
    )
    return CheckpointSchedule(config, 100.0, last_age_s=age_s, version=version)


def test_the_first_checkpoint_is_due_an_interval_after_the_run_began() -> None:
    times = schedule()
    assert times.due_in_s(100.0, 0) == 10.0
    assert times.due_in_s(111.0, 0) == 0.0


def test_the_interval_goes_on_over_a_restart_of_the_driver() -> None:
    assert schedule(age_s=7.0, version=3).due_in_s(100.0, 4) == 3.0
    assert schedule(age_s=60.0, version=3).due_in_s(100.0, 4) == 0.0


def test_a_clock_set_back_does_not_put_a_checkpoint_off() -> None:
    assert schedule(age_s=-3600.0).due_in_s(100.0, 0) == 10.0


def test_nothing_is_due_before_something_newer_is_committed() -> None:
    times = schedule(age_s=60.0, version=3)
    assert times.due_in_s(200.0, 3) is None
    assert times.due_in_s(200.0, 4) == 0.0


def test_an_interval_of_zero_means_none_by_themselves() -> None:
    assert schedule(interval_ms=0).due_in_s(1e6, 5) is None


def test_periods_count_from_start_to_start() -> None:
    times = schedule()
    times.start(110.0)
    times.complete(117.0, 4)
    assert times.due_in_s(117.0, 5) == 3.0


def test_the_pause_counts_from_the_end_also_of_a_failure() -> None:
    times = schedule(pause_ms=5_000)
    times.start(110.0)
    times.complete(118.0, 4)
    assert times.due_in_s(118.0, 5) == 5.0
    times.start(123.0)
    times.fail(135.0)
    assert times.due_in_s(135.0, 5) == 5.0


def test_a_declined_one_is_made_at_the_next_commit() -> None:
    times = schedule()
    times.start(110.0)
    times.put_off(4)
    assert times.due_in_s(110.0, 4) is None
    assert times.due_in_s(110.0, 5) == 0.0


def test_those_put_off_are_counted_until_one_is_complete() -> None:
    times = schedule()
    assert [times.miss(), times.miss()] == [1, 2]
    times.complete(110.0, 4)
    assert times.miss() == 1


def test_a_failed_one_is_made_again_after_an_interval_without_a_commit() -> None:
    times = schedule()
    times.start(110.0)
    times.fail(111.0)
    assert times.due_in_s(111.0, 4) == 9.0


def test_failures_in_a_row_are_counted_and_a_success_ends_the_row() -> None:
    times = schedule(tolerable=1)
    assert not times.fail(101.0)
    times.complete(102.0, 1)
    assert not times.fail(103.0)
    assert times.fail(104.0)


def test_no_tolerable_failure_means_that_the_first_is_too_many() -> None:
    assert schedule(tolerable=0).fail(101.0)


def test_none_is_due_in_a_run_that_was_told_to_end() -> None:
    times = schedule()
    times.end()
    assert times.due_in_s(1_000.0, 4) is None


def test_any_number_of_failures_is_tolerated_unless_told() -> None:
    times = schedule()
    assert not any(times.fail(101.0 + n) for n in range(1000))


@given(
    interval_ms=st.integers(1, 100_000),
    pause_ms=st.integers(0, 100_000),
    took_s=st.floats(0.0, 500.0),
)
def test_neither_interval_nor_pause_is_ever_cut_short(
    interval_ms: int, pause_ms: int, took_s: float
) -> None:
    times = schedule(interval_ms=interval_ms, pause_ms=pause_ms)
    times.start(200.0)
    times.complete(200.0 + took_s, 1)
    due_s = times.due_in_s(200.0 + took_s, 2)
    assert due_s is not None
    at_s = 200.0 + took_s + due_s
    assert at_s >= 200.0 + interval_ms / 1000 - 1e-9
    assert at_s >= 200.0 + took_s + pause_ms / 1000 - 1e-9
