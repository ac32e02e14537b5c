"""Search for the highest rate that an open loop holds: first in steps, then by bisection."""

from __future__ import annotations

import math

STEP = 1.5
"""Ratio of two successive rates of the climb."""
ENOUGH_FAILURES = 2
"""Successive rates that must fail before the climb ends: one failure may be noise."""


class RateSearch:
    """Chooses the next rate to try; a rate is held if two of at most three tries held it.

    The caller tries `next_rate()` and passes the outcome to `record()` until there is no rate.
    """

    def __init__(self, first: float, *, resolution: float) -> None:
        self._rate = first
        self._resolution = resolution
        self._tries: list[bool] = []
        self._held = 0.0
        self._failed = math.inf  # the lowest rate above `_held` that was not held
        self._failures = 0  # successive, while climbing

    @property
    def highest(self) -> float:
        """The highest rate held so far; 0 if there is none."""
        return self._held

    def next_rate(self) -> float | None:
        """The rate to try now; None if held and failed rates differ by less than the resolution."""
        if self._has_climbed and (not self._held or self._failed / self._held <= self._resolution):
            return None
        return self._rate

    def record(self, held: bool) -> None:
        """Records the outcome of a try of `next_rate()`."""
        self._tries.append(held)
        if self._tries.count(held) < 2:
            return
        self._tries = []
        if self._has_climbed:
            if held:
                self._held = self._rate
            else:
                self._failed = self._rate
        elif held:
            self._held, self._failed, self._failures = self._rate, math.inf, 0
        else:
            self._failed = min(self._failed, self._rate)
            self._failures += 1
        if self._has_climbed:
            self._rate = math.sqrt(self._held * self._failed)
        else:
            self._rate *= STEP

    @property
    def _has_climbed(self) -> bool:
        return self._failures == ENOUGH_FAILURES
