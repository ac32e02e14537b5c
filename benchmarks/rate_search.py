"""The highest rate that is held: doubled until it is not, then halved between."""

from __future__ import annotations

import math


class RateSearch:
    """Says which rate to try next; a rate is held when two of at most three tries held it.

    The caller asks for `next_rate()`, tries it, tells `record()`, until there is none.
    """

    def __init__(self, first: float, *, resolution: float, lowest: float = 100.0) -> None:
        self._rate = first
        self._resolution = resolution
        self._lowest = lowest
        self._tries: list[bool] = []
        self._held = 0.0
        self._failed = math.inf

    @property
    def highest(self) -> float:
        """The highest rate held so far; 0 where none was."""
        return self._held

    def next_rate(self) -> float | None:
        """What to try now; None when held and failed rates lie closer than the resolution."""
        if self._held and self._failed / self._held <= self._resolution:
            return None
        if not self._held and self._failed <= self._lowest:
            return None
        return self._rate

    def record(self, held: bool) -> None:
        """The outcome of a try of `next_rate()`."""
        self._tries.append(held)
        if self._tries.count(True) == 2:
            self._held = self._rate
        elif self._tries.count(False) == 2:
            self._failed = self._rate
        else:
            return
        self._tries = []
        if not self._held:
            self._rate = self._failed / 2
        elif math.isinf(self._failed):
            self._rate = self._held * 2
        else:
            self._rate = math.sqrt(self._held * self._failed)
