"""Histogram of durations with fixed buckets."""

from __future__ import annotations

from bisect import bisect_left
from itertools import accumulate

QUERY_BOUNDS_S = (1e-5, 2e-5, 5e-5, 1e-4, 2e-4, 5e-4, 1e-3, 2e-3, 5e-3, 0.01, 0.05, 0.25, 1.0, 10.0)
"""Bounds for queries, in seconds."""

BATCH_BOUNDS_S = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 60.0)
"""Bounds for calls of tasks and the coordinator, in seconds."""

STORAGE_BOUNDS_S = (0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0)
"""Bounds for checkpoints and restores, in seconds."""


class Durations:
    """Counts durations by bucket. One thread adds; any thread reads."""

    __slots__ = ("_bounds_s", "_counts", "total_s")

    def __init__(self, bounds_s: tuple[float, ...]) -> None:
        self._bounds_s = bounds_s
        self._counts = [0] * (len(bounds_s) + 1)
        self.total_s = 0.0
        """Sum of all durations."""

    def add(self, duration_s: float) -> None:
        """Counts one duration, in seconds."""
        self._counts[bisect_left(self._bounds_s, duration_s)] += 1
        self.total_s += duration_s

    def buckets(self) -> list[tuple[str, float]]:
        """The upper bound of each bucket, and the number of durations up to it."""
        bounds = (*map(str, self._bounds_s), "+Inf")
        return list(zip(bounds, map(float, accumulate(self._counts)), strict=True))
