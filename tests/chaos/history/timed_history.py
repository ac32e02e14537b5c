"""Timers and windows after each batch, by their definitions and the clocks of the batches."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from tests.chaos.jobs.workload import (
    DELAY_MS,
    LATENESS_MS,
    SILENCE_MS,
    TICK_EVERY,
    TICK_MS,
    WINDOW_MS,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.chaos.jobs.workload import Row

EVENT, PROCESSING = "EVENT_TIME", "PROCESSING_TIME"
_MOST_LEFT_OUT = 2
"""Batches on end whose rows do not move the watermark."""


class TimedHistory:
    """The silences and timers of all keys and the windows of all groups, moved batch by batch."""

    def __init__(self) -> None:
        self.silences: dict[str, list[int]] = {}
        """By key: how often it was silent, its ticks, and its next alarm."""
        self.timers: dict[str, set[tuple[str, int]]] = defaultdict(set)
        """By key: clock and timestamp."""
        self.windows: dict[str, dict[int, list[Any]]] = defaultdict(dict)
        """By group and start of the window: what is added up."""
        self.fired: list[list[Any]] = []
        """Group, start, amount and count of each firing of the last batch, sorted."""
        self.watermark = 0
        """Of the last batch; 0: none."""
        self.is_wrong = False
        """Whether the rows before the last batch do not make its watermark."""
        self._newest = 0
        self._newest_of_last = 0
        self._left_out = 0
        self._not_fired: set[tuple[str, int]] = set()

    def advance(
        self, timestamp_ms: int, rows: Sequence[Row], watermark_ms: int | None = None
    ) -> None:
        """Does a batch, with the watermark that Spark gave it; None: that of all rows before.

        Spark does not count the rows of a batch that its sink has and skips after a crash, nor
        those of the first batch that a run does if the plan reads an operator twice. Both may
        happen after a crash: so it may leave out two batches on end, but never three.
        """
        behind, full = self.watermark, max(self.watermark, self._newest - DELAY_MS)
        self.watermark = full if watermark_ms is None else watermark_ms
        is_left_out = self.watermark < self._newest_of_last - DELAY_MS
        self._left_out = self._left_out + 1 if is_left_out else 0
        self.is_wrong = not behind <= self.watermark <= full or self._left_out > _MOST_LEFT_OUT
        self._newest_of_last = max((row.at for row in rows), default=0)
        self._newest = max(self._newest, self._newest_of_last)
        for key in self.timers:
            self._fire_timers(key, timestamp_ms)
        for row in rows:
            self._take(row, timestamp_ms)
        # The operator behind another one has the watermark of the batch before.
        self.fired = [*self._end_windows(behind), *self._fill_windows(behind, rows)]
        self.fired.sort()

    def pending(self, key: str) -> list[list[Any]]:
        """The timers of a key in the order in which they fire."""
        return [[clock, at] for clock, at in sorted(self.timers[key], key=_firing_order)]

    def live(self, group: str) -> list[list[Any]]:
        """The windows of a group by start, with what is added up."""
        return [[start, list(sums)] for start, sums in sorted(self.windows[group].items())]

    def _fire_timers(self, key: str, timestamp_ms: int) -> None:
        until = {EVENT: self.watermark, PROCESSING: timestamp_ms}
        due = {(clock, at) for clock, at in self.timers[key] if at <= until[clock]}
        self.timers[key] -= due
        for clock, _ in due:
            silent, ticks, alarm = self.silences[key]
            ticks += clock == PROCESSING
            is_silent = clock == EVENT
            self.silences[key] = [silent + is_silent, ticks, 0 if is_silent else alarm]

    def _take(self, row: Row, timestamp_ms: int) -> None:
        silent, ticks, alarm = self.silences.get(row.key, [0, 0, 0])
        self.timers[row.key].discard((EVENT, alarm))
        self.timers[row.key].add((EVENT, row.at + SILENCE_MS))
        self.silences[row.key] = [silent, ticks, row.at + SILENCE_MS]
        if row.number % TICK_EVERY == 0:
            self.timers[row.key].add((PROCESSING, timestamp_ms + TICK_MS))

    def _end_windows(self, watermark: int) -> list[list[Any]]:
        fired = []
        for group, windows in self.windows.items():
            for start in list(windows):
                last = start + WINDOW_MS - 1
                if last <= watermark and (group, start) in self._not_fired:
                    self._not_fired.discard((group, start))
                    fired.append([group, start, *windows[start][2:]])
                if last + LATENESS_MS <= watermark:
                    del windows[start]
        return fired

    def _fill_windows(self, watermark: int, rows: Sequence[Row]) -> list[list[Any]]:
        fired = []
        for row in sorted(rows, key=lambda row: row.at):
            start = row.at - row.at % WINDOW_MS
            last = start + WINDOW_MS - 1
            if last + LATENESS_MS <= watermark:
                continue
            windows = self.windows[row.group]
            _, number, amount, ones = windows.get(start, [row.group, 0, 0, 0])
            windows[start] = [row.group, max(number, row.number), amount + row.amount, ones + 1]
            if last <= watermark:
                fired.append([row.group, start, *windows[start][2:]])
            else:
                self._not_fired.add((row.group, start))
        return fired


def _firing_order(timer: tuple[str, int]) -> tuple[bool, int]:
    clock, at = timer
    return clock == EVENT, at
