"""Admission of queries by the limits of the access file."""

from __future__ import annotations

import math
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from queryable_state.server.security.admission.recent_refusals import RecentRefusals, Refusal
from queryable_state.wire.errors import Reason, RetryLaterError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from queryable_state.server.security.access.grants import StateName
    from queryable_state.server.security.admission.limit import Limit


class TokenBucket:
    """Admits `rate` units a second, and a burst of one second's units, at least one.

    A cost above the burst is admitted when the bucket is full, and leaves a debt that later costs
    wait for: over any time the units admitted are at most the burst, the rate times that time, and
    one cost.
    """

    __slots__ = ("_burst", "_level", "_rate", "_then_s")

    def __init__(self, rate: float, now_s: float) -> None:
        """`rate` is above 0."""
        self._rate = rate
        self._burst = max(1.0, rate)
        self._level = self._burst
        self._then_s = now_s

    def wait_s(self, cost: float, now_s: float) -> float:
        """Seconds until this cost would be admitted; 0: now. Takes nothing."""
        self._fill(now_s)
        lacking = min(cost, self._burst) - self._level
        return lacking / self._rate if lacking > 0 else 0.0

    def take(self, cost: float, now_s: float) -> None:
        """Takes units, admitted or already used."""
        self._fill(now_s)
        self._level -= cost

    def is_full(self, now_s: float) -> bool:
        """True if the bucket is full, so that it can be dropped and made anew."""
        self._fill(now_s)
        return self._level >= self._burst

    def _fill(self, now_s: float) -> None:
        if now_s > self._then_s:
            self._level = min(self._burst, self._level + (now_s - self._then_s) * self._rate)
            self._then_s = now_s


# Counters kept; beyond it those that count nothing are dropped.
_MOST_COUNTERS = 4096

_SCAN_RETRY_MS = 500


class _Counter:
    """Usage counted against one limit: token buckets for rates, and the open scans."""

    def __init__(self, limit: Limit, whose: str, now_s: float) -> None:
        self.whose = whose
        self.buckets = {
            name: TokenBucket(rate, now_s)
            for name, rate in (
                ("queries_per_s", limit.queries_per_s),
                ("keys_per_s", limit.keys_per_s),
                ("bytes_per_s", limit.bytes_per_s),
            )
            if rate is not None
        }
        self.most_scans = math.inf if limit.scans is None else limit.scans
        self.scans = 0

    def is_idle(self, now_s: float) -> bool:
        """True if a new counter would be equal."""
        return not self.scans and all(each.is_full(now_s) for each in self.buckets.values())


class Quota:
    """Quota of one caller on one state. For the event loop only."""

    def __init__(
        self,
        counters: Iterable[_Counter],
        clock: Callable[[], float],
        refuse: Callable[[str], None],
    ) -> None:
        """`refuse` counts a refusal, by name of the limit."""
        self._counters = tuple(counters)
        self._refuse = refuse
        self._clock = clock

    def admit(self, keys: int) -> None:
        """Counts a query of so many keys; raises `RetryLaterError` if a limit is reached.

        A refused query is not counted. Bytes are counted when they are known: a query is refused
        while answers before it exceed the limit.
        """
        now_s = self._clock()
        costs = {"queries_per_s": 1, "keys_per_s": keys, "bytes_per_s": 1}
        for counter in self._counters:
            for name, bucket in counter.buckets.items():
                wait_s = bucket.wait_s(costs[name], now_s)
                if wait_s:
                    self._refuse(name)
                    raise _refusal(name, counter.whose, wait_s)
        del costs["bytes_per_s"]
        for counter in self._counters:
            for name, cost in costs.items():
                if name in counter.buckets:
                    counter.buckets[name].take(cost, now_s)

    def refund(self) -> None:
        """Takes one query off the counted ones: it turned out to have no keys."""
        for counter in self._counters:
            if "queries_per_s" in counter.buckets:
                counter.buckets["queries_per_s"].take(-1, self._clock())

    def answered(self, size_bytes: int) -> None:
        """Counts the bytes of an answer."""
        for counter in self._counters:
            bucket = counter.buckets.get("bytes_per_s")
            if bucket is not None:
                bucket.take(size_bytes, self._clock())

    def pause_s(self) -> float:
        """Seconds that the next message of a scan must wait, by the bytes of those before."""
        now_s = self._clock()
        return max(
            (
                counter.buckets["bytes_per_s"].wait_s(1, now_s)
                for counter in self._counters
                if "bytes_per_s" in counter.buckets
            ),
            default=0.0,
        )

    @contextmanager
    def scan(self) -> Iterator[None]:
        """Counts a scan while the block lasts; raises `RetryLaterError` if a limit is reached."""
        self.admit(0)
        for counter in self._counters:
            if counter.scans >= counter.most_scans:
                self._refuse("scans")
                raise RetryLaterError(
                    f"{counter.scans} scans {counter.whose} run, which is the limit `scans` of the "
                    "access file: wait for one to end, or ask for a higher limit",
                    reason=Reason.OVERLOADED,
                    retry_after_ms=_SCAN_RETRY_MS,
                )
        for counter in self._counters:
            counter.scans += 1
        try:
            yield
        finally:
            for counter in self._counters:
                counter.scans -= 1


class Admission:
    """The counters of all limits in one process. For the event loop only."""

    def __init__(
        self,
        limits: Iterable[Limit],
        *,
        clock: Callable[[], float] = time.monotonic,
        refusals: RecentRefusals | None = None,
    ) -> None:
        """`refusals` counts what is refused; None: counters of its own."""
        self._limits = tuple(limits)
        self._clock = clock
        self._counters: dict[tuple[int, str, str, str], _Counter] = {}
        self.refusals = RecentRefusals(clock) if refusals is None else refusals
        """Refused queries and scans."""

    def quota(self, caller: str, name: StateName) -> Quota | None:
        """The quota of a caller on a state; None if no limit applies."""
        counters = [
            self._counter(number, limit, caller, name)
            for number, limit in enumerate(self._limits)
            if limit.applies_to(caller, name)
        ]
        if not counters:
            return None
        return Quota(
            counters,
            self._clock,
            lambda limited: self.refusals.add(Refusal(caller, name, limited)),
        )

    def _counter(self, number: int, limit: Limit, caller: str, name: StateName) -> _Counter:
        job, state = ("", "") if limit.states is None else (name.job_id, name.state)
        key = (number, "" if limit.callers is None else caller, job, state)
        counter = self._counters.get(key)
        if counter is None:
            now_s = self._clock()
            if len(self._counters) >= _MOST_COUNTERS:
                kept = {k: each for k, each in self._counters.items() if not each.is_idle(now_s)}
                self._counters = kept
            whose = " ".join(
                text
                for text, named in (
                    (f"of caller {caller!r}", limit.callers is not None),
                    (f"on state {name.state!r}", limit.states is not None),
                )
                if named
            )
            counter = _Counter(limit, whose or "of all callers", now_s)
            self._counters[key] = counter
        return counter


_WHAT = {"queries_per_s": "queries", "keys_per_s": "keys", "bytes_per_s": "bytes of answers"}


def _refusal(name: str, whose: str, wait_s: float) -> RetryLaterError:
    return RetryLaterError(
        f"too many {_WHAT[name]} {whose}: the limit `{name}` of the access file is reached; retry "
        "after the given time, or ask for a higher limit",
        reason=Reason.OVERLOADED,
        retry_after_ms=max(1, math.ceil(wait_s * 1000)),
    )
