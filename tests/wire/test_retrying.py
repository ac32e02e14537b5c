"""Retries: what is retried, the delays between attempts, and what is raised in the end."""

from __future__ import annotations

import asyncio
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from queryable_state.wire.calls.retrying import (
    JITTER,
    Attempts,
    RetryPolicy,
    retrying,
    retrying_blocking,
)
from queryable_state.wire.errors import (
    InvalidRequestError,
    PlacementError,
    QueryableStateError,
    Reason,
    RetryLaterError,
)
from queryable_state.wire.next_step import NextStep, next_step

_POLICY = RetryPolicy(
    steps=frozenset({NextStep.LOCATE_AGAIN}), first_delay_s=0.001, longest_delay_s=0.004
)


class _Flaky:
    """An operation that fails some times before it succeeds."""

    def __init__(self, *failures: QueryableStateError) -> None:
        self._failures = list(failures)
        self.calls = 0

    def __call__(self) -> str:
        self.calls += 1
        if self._failures:
            raise self._failures.pop(0)
        return "done"

    async def later(self) -> str:
        return self()


def _unavailable(number: int) -> list[QueryableStateError]:
    return [RetryLaterError(f"failure {each}") for each in range(number)]


def test_every_reason_that_a_retry_class_stands_for_has_a_next_step_of_its_own() -> None:
    for reason in Reason.values():
        error = QueryableStateError.from_proto(QueryableStateError("", reason=reason).to_proto())
        if isinstance(error, (RetryLaterError, PlacementError)):
            assert next_step(reason) is not NextStep.FAIL, error.reason_name
    assert next_step(Reason.INVALID_REQUEST) is NextStep.FAIL


@given(
    attempts=st.integers(0, 10_000),
    hint_ms=st.integers(0, 1 << 32),
    first_s=st.floats(0.001, 1),
    longest_s=st.floats(0.001, 10),
)
def test_a_delay_is_bounded_and_not_shorter_than_the_server_asks(
    attempts: int, hint_ms: int, first_s: float, longest_s: float
) -> None:
    policy = RetryPolicy(
        steps=frozenset(), first_delay_s=first_s, longest_delay_s=longest_s,
        longest_server_delay_s=5.0,
    )  # fmt: skip
    delay_s = policy.delay_s(RetryLaterError("", retry_after_ms=hint_ms), attempts)
    server_s = min(5.0, hint_ms / 1000)
    backoff_s = min(longest_s, first_s * 2.0 ** min(attempts, 32))
    longest = max(server_s, backoff_s)
    assert longest * (1 - JITTER) <= delay_s <= longest * (1 + JITTER)


@given(
    hints_ms=st.lists(st.integers(0, 3000), min_size=1, max_size=50),
    deadline_s=st.floats(0, 60),
)
def test_no_delay_ends_at_the_deadline_or_after_it(hints_ms: list[int], deadline_s: float) -> None:
    now_s = 0.0
    attempts = Attempts(_POLICY, deadline_s, lambda: now_s)
    for number, hint_ms in enumerate(hints_ms, 1):
        delay_s = attempts.delay_s(RetryLaterError("", retry_after_ms=hint_ms))
        assert attempts.failed == number
        if delay_s is None:
            break
        now_s += delay_s
        assert now_s < deadline_s


async def test_an_operation_is_tried_until_it_succeeds() -> None:
    flaky = _Flaky(*_unavailable(3))
    deadline_s = asyncio.get_running_loop().time() + 10
    assert await retrying(flaky.later, _POLICY, deadline_s=deadline_s) == "done"
    assert flaky.calls == 4
    flaky = _Flaky(*_unavailable(3))
    assert retrying_blocking(flaky, _POLICY, deadline_s=time.monotonic() + 10) == "done"
    assert flaky.calls == 4


async def test_at_the_deadline_the_last_refusal_is_raised_and_names_the_attempts() -> None:
    flaky = _Flaky(*_unavailable(2), RetryLaterError("the last one", retry_after_ms=60_000))
    deadline_s = asyncio.get_running_loop().time() + 10
    with pytest.raises(RetryLaterError, match=r"^the last one \(after 3 attempts\)$") as raised:
        await retrying(flaky.later, _POLICY, deadline_s=deadline_s)
    assert raised.value.retry_after_ms == 60_000
    flaky = _Flaky(*_unavailable(1))
    with pytest.raises(RetryLaterError, match=r"^failure 0$"):
        retrying_blocking(flaky, _POLICY, deadline_s=time.monotonic())
    assert flaky.calls == 1


async def test_a_refusal_that_no_retry_helps_is_raised_at_once_as_it_is() -> None:
    refusal = InvalidRequestError("no such state")
    flaky = _Flaky(RetryLaterError("once"), refusal)
    with pytest.raises(InvalidRequestError) as raised:
        await retrying(flaky.later, _POLICY, deadline_s=asyncio.get_running_loop().time() + 10)
    assert raised.value is refusal
    assert flaky.calls == 2


async def test_what_is_raised_before_a_retry_ends_the_retries() -> None:
    seen: list[str] = []

    def give_up(refusal: QueryableStateError) -> None:
        seen.append(refusal.message)
        if len(seen) == 2:
            raise KeyError

    for_ever = _Flaky(*_unavailable(100))
    with pytest.raises(KeyError):
        await retrying(
            for_ever.later,
            _POLICY,
            deadline_s=asyncio.get_running_loop().time() + 10,
            before_retry=give_up,
        )
    assert seen == ["failure 0", "failure 1"]


def test_a_wait_that_says_so_ends_the_retries() -> None:
    waits: list[float] = []

    def stopping(delay_s: float) -> bool:
        waits.append(delay_s)
        return len(waits) == 2

    with pytest.raises(RetryLaterError, match=r"failure 1 \(after 2 attempts\)"):
        retrying_blocking(
            _Flaky(*_unavailable(100)), _POLICY, deadline_s=time.monotonic() + 10, wait=stopping
        )
