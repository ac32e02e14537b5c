"""Sketch of the keys that occur most often in a stream, in bounded memory.

The counters are those of Misra and Gries (1982), which give the same guarantees as Space-Saving
(Metwally, Agrawal and El Abbadi, 2005; Agarwal et al., "Mergeable Summaries", 2012, shows that the
two are isomorphic). They are reduced in bulk once twice the capacity is used (Anderson et al.,
2017), so that an addition is one dictionary update instead of a search for the smallest counter.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

CAPACITY = 128

LONGEST_KEY = 1024
"""Bytes of the longest key that a sketch names; longer keys count only in the total."""


class FrequentKeys:
    """Counters of at most `2 * capacity` keys. Not thread-safe.

    The true count of a key is at least its counter (0 if it has none), and at most `missed` more.
    With counts added one by one `missed` is at most `total / (capacity + 1)`, so each key
    with a larger share of the total has a counter.
    """

    __slots__ = ("_capacity", "counts", "missed", "sampled_every", "total")

    def __init__(self, capacity: int = CAPACITY) -> None:
        self._capacity = capacity
        self.counts: dict[bytes, int] = {}
        self.total = 0
        """Sum of all counts added."""
        self.missed = 0
        """Upper bound of what a counter lacks."""
        self.sampled_every = 1
        """One of so many occurrences was added, with their number as its count; 1: each was."""

    def add(self, key: bytes, count: int) -> None:
        """Adds to the count of a key."""
        self.total += count
        if len(key) > LONGEST_KEY:
            return
        counts = self.counts
        counts[key] = counts.get(key, 0) + count
        if len(counts) > 2 * self._capacity:
            self._reduce()

    def merge(
        self,
        counts: Iterable[tuple[bytes, int]],
        *,
        total: int,
        missed: int,
        sampled_every: int = 1,
    ) -> None:
        """Adds another sketch of other occurrences, or a part of it; `total` covers all of it."""
        before = self.total
        for key, count in counts:
            self.add(key, count)
        self.total = before + total
        self.missed += missed
        self.sampled_every = max(self.sampled_every, sampled_every)

    def top(self, limit: int) -> Mapping[bytes, int]:
        """The keys with the largest counters, in descending order."""
        order = sorted(self.counts.items(), key=lambda item: (-item[1], item[0]))
        return dict(order[:limit])

    def error(self, count: int) -> int:
        """How far a true count may be from a counter with this value.

        Of a sampled stream it holds with a probability of 95 %: twice the standard deviation of
        the number of samples is added.
        """
        return self.missed + round(2 * math.sqrt(count * (self.sampled_every - 1)))

    def _reduce(self) -> None:
        """Subtracts the largest count that does not fit from all counters.

        `capacity + 1` counters lose all of it, so the sum of what is subtracted, `missed`, is at
        most `total / (capacity + 1)`.
        """
        cut = sorted(self.counts.values(), reverse=True)[self._capacity]
        self.missed += cut
        self.counts = {key: count - cut for key, count in self.counts.items() if count > cut}
