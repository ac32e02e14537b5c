"""The usual pace of one job: what its newest batches are compared with."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from queryable_state.server.coordinator.status.reports import BatchReport, SourceReport

_BATCHES = 64
# So many of the newest batches are compared with the ones before.
_NEWEST = 3
_LEAST_BATCHES = 5
_LEAST_PAUSES = 8
# Rates of short batches vary by more than one part in ten.
_FASTER = 1.1
_LEAST_PEAKS = 3
_LEAST_GROWING_MS = 10_000


@dataclass(frozen=True, kw_only=True)
class Pace:
    """Figures of the newest batches, and of those before. 0: too few batches are known."""

    usual_batch_ms: int = 0
    """Median duration of the earlier batches."""
    newest_batch_ms: int = 0
    """The shortest of the newest batches."""
    newest_ms: int = 0
    """Duration of the newest batch."""
    batches_behind: int = 0
    """Batches in a row in which more rows arrived a second than were processed."""
    behind_since_ms: int = 0
    """End of the first of them."""
    pauses_ms: tuple[int, ...] = ()
    """Of each source: the longest known time between two batches with rows of it."""
    backlogs_since_ms: tuple[int, ...] = ()
    """Of each source: since when its backlog grows; 0: it does not."""
    backlog_peaks: tuple[int, ...] = ()
    """Of each source: the last peak of its backlog."""


class JobPace:
    """Durations and rates of at most 64 batches. Not thread-safe."""

    def __init__(self) -> None:
        self._durations_ms: deque[int] = deque(maxlen=_BATCHES)
        self._behind = 0
        self._behind_since_ms = 0
        self._rows_at_ms: dict[int, int] = {}
        self._pauses_ms: dict[int, deque[int]] = {}
        self._backlogs: dict[int, _GrowingBacklog] = {}

    def reported(self, report: BatchReport) -> None:
        """Adds a finished batch."""
        self._durations_ms.append(report.duration_ms)
        if report.input_rows_per_s > _FASTER * report.processed_rows_per_s > 0:
            self._behind += 1
            self._behind_since_ms = self._behind_since_ms or report.ended_at_ms
        else:
            self._behind = self._behind_since_ms = 0
        for position, source in enumerate(report.sources):
            backlog = self._backlogs.setdefault(position, _GrowingBacklog())
            backlog.reported(source, report.ended_at_ms)
            pauses = self._pauses_ms.setdefault(position, deque(maxlen=_BATCHES))
            if not source.rows:
                continue
            if position in self._rows_at_ms:
                pauses.append(max(0, report.ended_at_ms - self._rows_at_ms[position]))
            self._rows_at_ms[position] = report.ended_at_ms

    def figures(self) -> Pace:
        """The pace as of the newest batch."""
        durations = list(self._durations_ms)
        earlier, newest = durations[:-_NEWEST], durations[-_NEWEST:]
        known = len(earlier) >= _LEAST_BATCHES
        return Pace(
            usual_batch_ms=_median(earlier) if known else 0,
            newest_batch_ms=min(newest) if known else 0,
            newest_ms=durations[-1] if durations else 0,
            batches_behind=self._behind,
            behind_since_ms=self._behind_since_ms,
            pauses_ms=tuple(
                max(pauses) if len(pauses) >= _LEAST_PAUSES else 0
                for _, pauses in sorted(self._pauses_ms.items())
            ),
            backlogs_since_ms=tuple(
                backlog.growing_since_ms for _, backlog in sorted(self._backlogs.items())
            ),
            backlog_peaks=tuple(backlog.peak for _, backlog in sorted(self._backlogs.items())),
        )


class _GrowingBacklog:
    """The peaks of one source's backlog.

    A file source lists new files once it has read those that it knows: its backlog falls to nothing
    and rises with each listing. So peaks are compared, and one empty backlog ends nothing: one
    that has grown is over with a peak of half the highest, or when it is empty twice in a row.
    """

    def __init__(self) -> None:
        self._last = self.peak = 0
        self._peaks = 0
        """Peaks in a row, none lower than the one before; later than half of the highest."""
        self._first_at_ms = 0
        self._last_at_ms = 0
        self._empty = 0
        self._is_large = False

    def reported(self, source: SourceReport, at_ms: int) -> None:
        """Adds the backlog after a batch."""
        self._last_at_ms = at_ms
        if not source.backlog:
            self._empty += 1
            if self._empty > 1:
                self._last = self.peak = self._peaks = 0
            return
        self._empty = 0
        if source.backlog > self._last:
            if source.backlog >= self.peak:
                self._peaks += 1
            elif self.growing_since_ms and 2 * source.backlog > self.peak:
                # What has grown is not over with a somewhat lower peak.
                self._last = source.backlog
                return
            else:
                self._peaks = 1
            if self._peaks == 1:
                self._first_at_ms = at_ms
            self.peak = source.backlog
        elif source.backlog_unit != "files" and 2 * source.backlog <= self.peak:
            self._peaks = 0
        self._last = source.backlog
        # A backlog within one batch is the limit at work.
        self._is_large = source.backlog_unit != "rows" or self.peak > source.rows

    @property
    def growing_since_ms(self) -> int:
        """The first of the growing peaks; 0: it does not grow."""
        lasts = self._last_at_ms - self._first_at_ms >= _LEAST_GROWING_MS
        return self._first_at_ms if self._peaks >= _LEAST_PEAKS and lasts and self._is_large else 0


def _median(numbers: Iterable[int]) -> int:
    return round(median(numbers))
