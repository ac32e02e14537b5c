"""Sample of the keys that queries ask for."""

from __future__ import annotations

import math
import random
import time
from typing import TYPE_CHECKING

from queryable_state.server.state_server.hot_keys.recent_keys import RecentKeys

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

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
