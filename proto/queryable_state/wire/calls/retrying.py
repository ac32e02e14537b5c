"""Retries with a deadline, exponential back-off and jitter, for coroutines and for threads."""

from __future__ import annotations

import asyncio
import random
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeVar

from queryable_state.wire.calls.listeners import NothingListensError
from queryable_state.wire.errors import QueryableStateError
from queryable_state.wire.next_step import next_step

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from queryable_state.v1.errors_pb2 import Reason
    from queryable_state.wire.next_step import NextStep

_T = TypeVar("_T")

JITTER = 0.2
"""A delay is longer or shorter by at most this part of it, so that callers do not retry at once."""

_LONGEST_SERVER_DELAY_S = 60.0


class Refusal(Protocol):
    """The part of an error that decides on a retry; also a protobuf `Error` has it."""

    @property
    def reason(self) -> Reason.ValueType: ...
    @property
    def retry_after_ms(self) -> int: ...


@dataclass(frozen=True, kw_only=True, slots=True)
class RetryPolicy:
    """Which refusals a caller retries, and after which delays."""

    steps: frozenset[NextStep]
    """Refusals with these next steps are retried."""

    first_delay_s: float
    """Delay after the first attempt; doubled after each one."""

    longest_delay_s: float
    """The delay is not doubled beyond this."""

    longest_server_delay_s: float = _LONGEST_SERVER_DELAY_S
    """Upper bound of the delay that a server asks for (`retry_after_ms`)."""

    def retries(self, refusal: Refusal) -> bool:
        """True if a later attempt may succeed."""
        if isinstance(refusal, NothingListensError):
            return False
        return next_step(refusal.reason) in self.steps

    def delay_s(self, refusal: Refusal, attempts: int) -> float:
        """Seconds between an attempt and the next one; `attempts` are those before it.

        The back-off, or what the server asks for if that is longer; with jitter.
        """
        # The exponent is bounded: 2.0**1024 overflows.
        backoff_s = min(self.longest_delay_s, self.first_delay_s * 2.0 ** min(attempts, 32))
        server_s = min(self.longest_server_delay_s, refusal.retry_after_ms / 1000)
        return max(backoff_s, server_s) * random.uniform(1 - JITTER, 1 + JITTER)


class Attempts:
    """The attempts at one operation until its deadline."""

    __slots__ = ("_clock", "_deadline_s", "_policy", "failed")

    def __init__(
        self, policy: RetryPolicy, deadline_s: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """`deadline_s` is a time of `clock`."""
        self._policy = policy
        self._deadline_s = deadline_s
        self._clock = clock
        self.failed = 0
        """How many attempts have failed."""

    def delay_s(self, refusal: Refusal) -> float | None:
        """Counts a failed attempt; seconds until the next one.

        None if there is none: the policy does not retry, or the delay would end at the deadline
        or after it.
        """
        delay_s = self._policy.delay_s(refusal, self.failed)
        self.failed += 1
        in_time = self._clock() + delay_s < self._deadline_s
        return delay_s if in_time and self._policy.retries(refusal) else None

    def final(self, error: QueryableStateError) -> QueryableStateError:
        """The error to raise after the last attempt: names the attempts if there were several."""
        return error.after(self.failed) if self._policy.retries(error) else error


async def retrying(
    attempt: Callable[[], Awaitable[_T]],
    policy: RetryPolicy,
    *,
    deadline_s: float,
    before_retry: Callable[[QueryableStateError], None] | None = None,
) -> _T:
    """The result of the first attempt that succeeds.

    Raises the last refusal, which names the attempts, if the policy does not retry it or the
    deadline, a time of the running loop, is near. `before_retry` is called after each refusal
    that the policy retries, before the delay; what it raises ends the retries.
    """
    attempts = Attempts(policy, deadline_s, asyncio.get_running_loop().time)
    while True:
        try:
            return await attempt()
        except QueryableStateError as error:
            if before_retry is not None and policy.retries(error):
                before_retry(error)
            delay_s = attempts.delay_s(error)
            if delay_s is None:
                raise attempts.final(error) from error.__cause__
        await asyncio.sleep(delay_s)


def retrying_blocking(
    attempt: Callable[[], _T],
    policy: RetryPolicy,
    *,
    deadline_s: float,
    wait: Callable[[float], bool | None] = time.sleep,
    before_retry: Callable[[QueryableStateError], None] | None = None,
) -> _T:
    """As `retrying`, on a thread; the deadline is a time of `time.monotonic`.

    `wait` waits so many seconds, and returns True to give up.
    """
    attempts = Attempts(policy, deadline_s)
    while True:
        try:
            return attempt()
        except QueryableStateError as error:
            if before_retry is not None and policy.retries(error):
                before_retry(error)
            delay_s = attempts.delay_s(error)
            if delay_s is None or wait(delay_s):
                raise attempts.final(error) from error.__cause__
