"""Sketch of the keys that occurred most often in the last minute."""

from __future__ import annotations

import time
from collections import deque
from typing import TYPE_CHECKING

from queryable_state.server.state_server.hot_keys.frequent_keys import FrequentKeys

if TYPE_CHECKING:
    from collections.abc import Callable

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
