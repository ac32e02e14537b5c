"""Brute-force model of windows: by definition from all elements, not step by step as the operator.

Times are small numbers of milliseconds. An element is `(key, timestamp, value)`.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    Element = tuple[str, int, int]
    Fired = tuple[str, int, int, int]
    """Key, start, end and sum of a window that fires."""


def windows_over(time: int, size: int, slide: int, offset: int) -> list[tuple[int, int]]:
    """The windows over a time, found by trying all that are near."""
    first = (time - size) // slide - 2
    starts = [offset + number * slide for number in range(first, first + 2 * size // slide + 6)]
    return [(start, start + size) for start in starts if start <= time < start + size]


@dataclass
class FixedWindows:
    """Tumbling or sliding windows of event time with their default trigger."""

    size: int
    slide: int
    offset: int
    lateness: int
    watermarks: list[int] = field(default_factory=list)
    """The watermark of each batch."""
    taken: list[tuple[int, str, tuple[int, int], int]] = field(default_factory=list)
    """Batch, key, window and value of each element of a window, in order."""
    late: list[Element] = field(default_factory=list)

    def batch(self, watermark: int, elements: Iterable[Element]) -> list[Fired]:
        """What fires in a batch, before and with its elements."""
        before = self.watermarks[-1] if self.watermarks else -(1 << 63)
        self.watermarks.append(watermark)
        number = len(self.watermarks) - 1
        fired = []
        for key, (start, end) in dict.fromkeys((key, window) for _, key, window, _ in self.taken):
            on_time = any(
                self.watermarks[batch] < end - 1
                for batch, *of in self.taken
                if of[:2] == [key, (start, end)]
            )
            if before < end - 1 <= watermark and on_time:
                fired.append((key, start, end, self._sum(key, (start, end))))
        for element in elements:
            key, time, value = element
            windows = windows_over(time, self.size, self.slide, self.offset)
            alive = [each for each in windows if each[1] - 1 + self.lateness > watermark]
            for window in alive:
                self.taken.append((number, key, window, value))
                if window[1] - 1 <= watermark:
                    fired.append((key, *window, self._sum(key, window)))
            if not alive and time + self.lateness <= watermark:
                self.late.append(element)
        return fired

    def live(self) -> set[tuple[str, int, int]]:
        """The windows whose state is kept after the last batch."""
        watermark = self.watermarks[-1]
        return {
            (key, *window)
            for _, key, window, _ in self.taken
            if window[1] - 1 + self.lateness > watermark
        }

    def live_sums(self) -> dict[tuple[str, int, int], int]:
        """The sums of the live windows."""
        return {(key, start, end): self._sum(key, (start, end)) for key, start, end in self.live()}

    def _sum(self, key: str, window: tuple[int, int]) -> int:
        return sum(value for _, of, over, value in self.taken if (of, over) == (key, window))


@dataclass
class Sessions:
    """Sessions of event time with their default trigger; `gap` gives that of a value."""

    gap: Callable[[int], int]
    lateness: int
    watermark: int = -(1 << 63)
    alive: dict[str, list[list[tuple[int, int, int]]]] = field(
        default_factory=lambda: defaultdict(list)
    )
    """The live sessions of each key, as lists of time, gap and value."""
    late: list[Element] = field(default_factory=list)

    def batch(self, watermark: int, elements: Iterable[Element]) -> list[Fired]:
        """What fires in a batch, before and with its elements."""
        before, self.watermark = self.watermark, watermark
        fired = []
        for key, sessions in self.alive.items():
            for session in list(sessions):
                start, end = span_of(session)
                if before < end - 1 <= watermark:
                    fired.append((key, start, end, sum(value for *_, value in session)))
                if end - 1 + self.lateness <= watermark:
                    sessions.remove(session)
        for element in elements:
            key, time, value = element
            new = [(time, self.gap(value), value)]
            sessions = self.alive[key]
            joined = [each for each in sessions if _touch(span_of(each), span_of(new))]
            merged = [*(part for each in joined for part in each), *new]
            start, end = span_of(merged)
            if end - 1 + self.lateness <= watermark:
                if time + self.lateness <= watermark:
                    self.late.append(element)
                continue
            for each in joined:
                sessions.remove(each)
            sessions.append(merged)
            if end - 1 <= watermark:
                fired.append((key, start, end, sum(value for *_, value in merged)))
        return fired

    def live_sums(self) -> dict[tuple[str, int, int], int]:
        """Key, start, end and sum of the live sessions."""
        return {
            (key, *span_of(session)): sum(value for *_, value in session)
            for key, sessions in self.alive.items()
            for session in sessions
        }


@dataclass
class ProcessingTimeWindows:
    """Windows of processing time; `windows` gives those of the time of a batch."""

    windows: Callable[[int], Sequence[tuple[int, int]]]
    kept: dict[tuple[str, int, int], list[int]] = field(default_factory=lambda: defaultdict(list))

    def batch(self, now: int, elements: Iterable[Element]) -> list[Fired]:
        """What fires in a batch, before its elements."""
        ended = [each for each in self.kept if each[2] - 1 <= now]
        fired = [(*each, sum(self.kept.pop(each))) for each in ended]
        for key, _, value in elements:
            for window in self.windows(now):
                self.kept[key, *window].append(value)
        return fired


def span_of(session: Sequence[tuple[int, int, int]]) -> tuple[int, int]:
    """Start and end of a session."""
    return min(time for time, *_ in session), max(time + gap for time, gap, _ in session)


def _touch(one: tuple[int, int], other: tuple[int, int]) -> bool:
    return one[0] <= other[1] and other[0] <= one[1]
