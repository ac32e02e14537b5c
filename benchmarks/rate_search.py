"""The highest rate that is held: climbed to in steps, then closed in on."""

from __future__ import annotations

import math

STEP = 1.5
"""From one rate to the next while climbing."""
ENOUGH_FAILURES = 2
"""Rates in a row that are not held before the climb ends: one may be a busy neighbour's doing."""


class RateSearch:
    """Says which rate to try next; a rate is held when two of at most three tries held it.

    The caller asks for `next_rate()`, tries it, tells `record()`, until there is none.
    """

    def __init__(self, first: float, *, resolution: float) -> None:
        self._rate = first
        self._resolution = resolution
        self._tries: list[bool] = []
        self._held = 0.0
        self._failed = math.inf  # the lowest rate above `_held` that was not held
        self._failures = 0  # in a row, while climbing

    @property
    def highest(self) -> float:
        """The highest rate held so far; 0 where none was."""
        return self._held

    def next_rate(self) -> float | None:
        """What to try now; None when held and failed rates lie closer than the resolution."""
        if self._has_climbed and (not self._held or self._failed / self._held <= self._resolution):
            return None
        return self._rate

    def record(self, held: bool) -> None:
        """The outcome of a try of `next_rate()`."""
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
