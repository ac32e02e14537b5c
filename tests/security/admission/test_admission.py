"""Token buckets against a model in fractions, and limits of callers and states."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from queryable_state.server.security.access.access_file import parse
from queryable_state.server.security.access.grants import StateName
from queryable_state.server.security.admission.admission import Admission, TokenBucket
from queryable_state.wire.errors import Reason, RetryLaterError

LAST = StateName("0" * 32, "sensors", "last")
SEEN = StateName("0" * 32, "sensors", "seen")
# Eighths are exact in binary: model and bucket must agree to the last digit.
EIGHTHS = st.integers(1, 400).map(lambda eighths: eighths / 8)
STEPS = st.lists(st.tuples(EIGHTHS, st.integers(0, 60)), max_size=40)


class Clock:
    """A clock that a test sets."""

    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


@given(rate=st.sampled_from([0.5, 1.0, 4.0, 32.0]), steps=STEPS)
def test_a_bucket_is_the_model(rate: float, steps: list[tuple[float, int]]) -> None:
    now_s = 0.0
    bucket = TokenBucket(rate, now_s)
    burst = max(Fraction(1), Fraction(rate))
    level = burst
    admitted: list[tuple[float, int]] = []
    for pause_s, cost in steps:
        now_s += pause_s
        level = min(burst, level + Fraction(pause_s) * Fraction(rate))
        lacking = max(Fraction(0), min(Fraction(cost), burst) - level)
        assert bucket.wait_s(cost, now_s) == pytest.approx(float(lacking / Fraction(rate)))
        if not lacking:
            bucket.take(cost, now_s)
            level -= cost
            admitted.append((now_s, cost))
    # The promise of the docstring, over every stretch of time.
    for first, (begun_s, _) in enumerate(admitted):
        for end_s, cost in admitted[first:]:
            total = sum(c for at_s, c in admitted if begun_s <= at_s <= end_s)
            assert total <= burst + Fraction(rate) * Fraction(end_s - begun_s) + cost


@given(rate=st.sampled_from([1.0, 8.0]), cost=st.integers(1, 100), used=st.integers(0, 50))
def test_after_the_named_time_the_same_is_admitted(rate: float, cost: int, used: int) -> None:
    bucket = TokenBucket(rate, 0.0)
    bucket.take(used, 0.0)
    wait_s = bucket.wait_s(cost, 0.0)
    assert bucket.wait_s(cost, wait_s + 1e-9) < 1e-6


def limited(text: str) -> tuple[Admission, Clock]:
    clock = Clock()
    return Admission(parse(text).limits, clock=clock), clock


def test_without_limits_there_is_no_quota() -> None:
    admission, _ = limited("")
    assert admission.quota("me", LAST) is None


def test_a_limit_counts_each_caller_and_each_state_by_itself() -> None:
    admission, clock = limited("[[limits]]\ncallers=['*']\nstates=['*']\nqueries_per_s=2")
    for caller, name in (("a", LAST), ("b", LAST), ("a", SEEN)):
        quota = admission.quota(caller, name)
        assert quota is not None
        quota.admit(1)
        quota.admit(1)
        with pytest.raises(RetryLaterError, match="queries of caller"):
            quota.admit(1)
    clock.now_s = 0.5
    again = admission.quota("a", LAST)
    assert again is not None
    again.admit(1)


def test_a_limit_without_callers_is_shared_by_all() -> None:
    admission, _ = limited("[[limits]]\nstates=['last']\nkeys_per_s=10")
    first, second = admission.quota("a", LAST), admission.quota("b", LAST)
    assert first is not None
    assert second is not None
    assert admission.quota("a", SEEN) is None
    first.admit(8)
    with pytest.raises(RetryLaterError) as refused:
        second.admit(8)
    assert refused.value.reason == Reason.OVERLOADED
    assert refused.value.retry_after_ms == 600


def test_a_refused_query_takes_nothing_from_other_limits() -> None:
    admission, clock = limited(
        "[[limits]]\ncallers=['*']\nqueries_per_s=5\n[[limits]]\nstates=['last']\nkeys_per_s=1"
    )
    last, seen = admission.quota("a", LAST), admission.quota("a", SEEN)
    assert last is not None
    assert seen is not None
    last.admit(1)
    for _ in range(10):
        with pytest.raises(RetryLaterError, match="keys"):
            last.admit(1)
    for _ in range(4):
        seen.admit(1)
    with pytest.raises(RetryLaterError, match="queries"):
        seen.admit(1)
    clock.now_s = 1.0
    last.admit(1)


def test_answers_above_the_limit_of_bytes_delay_the_next_query() -> None:
    admission, clock = limited("[[limits]]\ncallers=['a']\nbytes_per_s=1000")
    quota = admission.quota("a", LAST)
    assert quota is not None
    quota.admit(1)
    quota.answered(3000)
    with pytest.raises(RetryLaterError, match="bytes of answers") as refused:
        quota.admit(1)
    assert refused.value.retry_after_ms == 2001
    assert quota.pause_s() == pytest.approx(2.001)
    clock.now_s = 2.5
    quota.admit(1)


def test_scans_at_one_time_are_counted() -> None:
    admission, _ = limited("[[limits]]\ncallers=['a']\nscans=1")
    quota = admission.quota("a", LAST)
    assert quota is not None
    with quota.scan(), pytest.raises(RetryLaterError, match="1 scans of caller"), quota.scan():
        pass
    with quota.scan():
        pass


def test_idle_counters_are_dropped() -> None:
    admission, clock = limited("[[limits]]\ncallers=['*']\nqueries_per_s=1000000")
    for number in range(10_000):
        clock.now_s += 1.0
        quota = admission.quota(f"caller-{number}", LAST)
        assert quota is not None
        quota.admit(1)
    assert len(admission._counters) <= 4097
