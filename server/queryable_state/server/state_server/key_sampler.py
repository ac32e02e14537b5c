"""Hot keys: the keys that queries and tasks touch most often, by sampling."""

from __future__ import annotations

import math
import random
import time
from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence


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


SLOT_S = 10
SLOTS = 6


class RecentKeys:
    """A sketch for each ten seconds of the last minute; older ones are dropped.

    Event loop only.
    """

    __slots__ = ("_born_s", "_clock", "_slots")

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._born_s = clock()
        self._slots: deque[tuple[int, FrequentKeys]] = deque(maxlen=SLOTS)
        """Number of ten seconds of the clock, and their sketch; ascending, without empty ones."""

    def current(self) -> FrequentKeys:
        """The sketch of the running ten seconds."""
        number = int(self._clock() // SLOT_S)
        if not self._slots or self._slots[-1][0] != number:
            self._slots.append((number, FrequentKeys()))
        return self._slots[-1][1]

    def merge_into(self, whole: FrequentKeys) -> None:
        """Adds the sketches of the last minute to another one."""
        oldest = int(self._clock() // SLOT_S) - SLOTS + 1
        for number, slot in self._slots:
            if number >= oldest:
                whole.merge(
                    slot.counts.items(),
                    total=slot.total,
                    missed=slot.missed,
                    sampled_every=slot.sampled_every,
                )

    @property
    def window_ms(self) -> int:
        """Length of the time that the sketches cover: 50 to 60 s, less after the start."""
        now_s = self._clock()
        start_s = (int(now_s // SLOT_S) - SLOTS + 1) * SLOT_S
        return int((now_s - max(start_s, self._born_s)) * 1000)


SAMPLES_PER_S = 256
"""Aim of the sampling: about 0.1 ms of CPU time in each second."""

_ADAPT_SAMPLES = 64
_ADAPT_S = 1.0
_MOST_EVERY = 1 << 16
_NEVER = 1 << 62


class KeySampler:
    """Counts each key with the same probability, which adapts to the rate of keys.

    The hot path subtracts the number of keys of a query from `left`, and calls `take` only if
    that makes it negative:

        sampler.left -= len(keys)
        if sampler.left < 0:
            sampler.take(keys)

    The gaps between two samples are geometric, so keys that are asked for in a fixed order are
    sampled evenly. Up to 256 keys/s all keys are counted. Event loop only.
    """

    __slots__ = ("_clock", "_every", "_random", "_since_s", "_taken", "is_on", "left", "recent")

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        uniform: Callable[[], float] = random.random,
        *,
        is_on: bool = True,
    ) -> None:
        """`is_on`: False: no key is ever counted."""
        self.recent = RecentKeys(clock)
        """The sampled keys."""
        self.is_on = is_on
        self.left = 0 if is_on else _NEVER
        """Keys to pass before the next sample."""
        self._clock = clock
        self._random = uniform
        self._every = 1
        self._taken = 0
        self._since_s = clock()

    def count(self, keys: Sequence[bytes]) -> None:
        """Passes the keys of a query, off the hot path."""
        self.left -= len(keys)
        if self.left < 0:
            self.take(keys)

    def take(self, keys: Sequence[bytes]) -> None:
        """Counts the sampled keys of a query, the number of which `left` has been reduced by."""
        count = len(keys)
        position = count + self.left
        sketch = self.recent.current()
        while position < count:
            sketch.add(keys[position], self._every)
            sketch.sampled_every = max(sketch.sampled_every, self._every)
            self._taken += 1
            if self._taken >= _ADAPT_SAMPLES or self._clock() - self._since_s > _ADAPT_S:
                self._adapt()
            # A sample counts as many keys as the gap before it was drawn for.
            position += 1 + self._gap()
        self.left = position - count

    def settle(self) -> None:
        """Adapts to a rate that has dropped, before the sample is read."""
        if self.is_on and self._clock() - self._since_s > _ADAPT_S:
            self._adapt()
            # Geometric gaps have no memory: the rest of the old gap may be drawn again.
            self.left = self._gap()

    def _gap(self) -> int:
        """Keys to pass before the next sample."""
        if self._every == 1:
            return 0
        return int(math.log(1.0 - self._random()) / math.log1p(-1 / self._every))

    def _adapt(self) -> None:
        """Sets the probability for the newest rate; halves it at most, so a burst passes fast."""
        now_s = self._clock()
        elapsed_s = max(now_s - self._since_s, 1e-9)
        wanted = self._every * self._taken / elapsed_s / SAMPLES_PER_S
        self._every = max(1, min(2 * self._every, int(wanted), _MOST_EVERY))
        self._taken, self._since_s = 0, now_s
