"""Tumbling and sliding time windows of many timestamps at once, in numpy."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from queryable_state.wire.errors import InvalidRequestError

if TYPE_CHECKING:
    import numpy.typing as npt

    Millis = npt.NDArray[np.int64]
    Mask = npt.NDArray[np.bool_]

_LATEST: Final = ((1 << 63) - 1) // 1000
"""The last millisecond that a TIMESTAMP of microseconds can have."""


@dataclass(frozen=True, kw_only=True)
class TimeWindows:
    """Windows of one size that start every `slide_ms`. All times are milliseconds.

    A tumbling window slides by its size. Windows start at `offset_ms` since the epoch, and at its
    distances of multiples of the slide.
    """

    size_ms: int
    slide_ms: int
    offset_ms: int = 0
    is_event_time: bool

    def __post_init__(self) -> None:
        """Raises InvalidRequestError unless size and slide are positive."""
        for name, value in (("size", self.size_ms), ("slide", self.slide_ms)):
            if value <= 0:
                raise InvalidRequestError(
                    f"a window needs a {name} of at least 1 millisecond, not {value}"
                )

    @property
    def pane_ms(self) -> int:
        """Length of the panes: every window consists of whole ones."""
        return math.gcd(self.size_ms, self.slide_ms)

    @property
    def most(self) -> int:
        """The greatest number of windows of a timestamp."""
        return -(-self.size_ms // self.slide_ms)

    def check(self, times: Millis) -> None:
        """Raises InvalidRequestError if the windows of a timestamp are out of range."""
        first, last = int(times.min()), int(times.max())
        reach = self.size_ms + self.slide_ms
        if first - reach < -_LATEST or last + reach > _LATEST:
            outside = first if first - reach < -_LATEST else last
            raise InvalidRequestError(
                f"an element has the timestamp {outside}, but start and end of its windows must be "
                f"milliseconds from {-_LATEST} to {_LATEST}: check its unit"
            )

    def panes(self, times: Millis) -> Millis:
        """The start of the pane of each timestamp."""
        return self._starts(times, self.pane_ms)

    def last_starts(self, times: Millis) -> Millis:
        """The start of the last window that starts at or before each timestamp.

        The timestamp is in none of the windows if it is not in this one, because the slide is
        greater than the size.
        """
        return self._starts(times, self.slide_ms)

    def assign(self, times: Millis) -> tuple[Millis, Millis]:
        """The windows of the timestamps: the index of a timestamp and the start of a window, for
        each window of each timestamp, by index and then by falling start."""
        last = self.last_starts(times)
        # The windows start at `last`, `last - slide` ... above `times - size`.
        counts = np.maximum(-((times - self.size_ms - last) // self.slide_ms), 0)
        if self.most == 1:
            indexes = np.flatnonzero(counts)
            return indexes, last[indexes]
        indexes = np.repeat(np.arange(len(times)), counts)
        firsts = np.cumsum(counts) - counts
        steps = np.arange(len(indexes)) - firsts[indexes]
        return indexes, last[indexes] - steps * self.slide_ms

    def _starts(self, times: Millis, step_ms: int) -> Millis:
        starts: Millis = times - (times - self.offset_ms) % step_ms
        return starts
