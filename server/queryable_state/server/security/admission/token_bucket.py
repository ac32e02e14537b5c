"""Token bucket: a rate with a burst of one second."""

from __future__ import annotations


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
