"""Tumbling and sliding windows by brute force: every element in a list of each of its windows."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

MIN_LONG, MAX_LONG = -(1 << 63), (1 << 63) - 1

Element = tuple[str, int, Any]
"""Key, timestamp and value."""


@dataclass
class WindowModel:
    """Windows of one operator, batch by batch. All times are milliseconds."""

    size: int
    slide: int
    offset: int
    lateness: int
    is_event_time: bool
    windows: dict[tuple[str, int], list[Any]] = field(default_factory=dict)
    """Values of the live windows by key and start."""
    fired: set[tuple[str, int]] = field(default_factory=set)
    late: list[Element] = field(default_factory=list)
    """The late elements of the last batch."""

    def batch(
        self, elements: list[Element], watermark: int, now: int
    ) -> list[tuple[str, int, int, list[Any]]]:
        """Key, start, end and values of the windows that the batch emits."""
        clock = watermark if self.is_event_time else now
        emitted = [self._row(window) for window in self.windows if self._fires(window, clock)]
        self.fired |= {window for window in self.windows if self._fires(window, clock)}
        for window in [each for each in self.windows if self._last(each) <= clock]:
            del self.windows[window]
            self.fired.discard(window)
        again = set()
        self.late = []
        for key, at, value in elements:
            time = at if self.is_event_time else now
            starts = [
                start
                for start in range(time - self.size + 1, time + 1)
                if (start - self.offset) % self.slide == 0
            ]
            left = [
                start
                for start in starts
                if not self.is_event_time or self._last((key, start)) > watermark
            ]
            for start in left:
                self.windows.setdefault((key, start), []).append(value)
                if self.is_event_time and start + self.size - 1 <= watermark:
                    again.add((key, start))
            if not left and self.is_event_time and time + self.lateness <= watermark:
                self.late.append((key, at, value))
        self.fired |= again
        return emitted + [self._row(window) for window in again]

    def _fires(self, window: tuple[str, int], clock: int) -> bool:
        return window not in self.fired and window[1] + self.size - 1 <= clock

    def _last(self, window: tuple[str, int]) -> int:
        """The time at which a window is removed."""
        return window[1] + self.size - 1 + self.lateness * self.is_event_time

    def _row(self, window: tuple[str, int]) -> tuple[str, int, int, list[Any]]:
        key, start = window
        return key, start, start + self.size, list(self.windows[window])
