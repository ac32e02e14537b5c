"""The usual pace of one job: what its newest batches are compared with."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from queryable_state.server.coordinator.status.reports import BatchReport

_BATCHES = 64
# So many of the newest batches are compared with the ones before.
_NEWEST = 3
_LEAST_BATCHES = 5
_LEAST_PAUSES = 8
# Rates of short batches vary by more than one part in ten.
_FASTER = 1.1


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


class JobPace:
    """Durations and rates of at most 64 batches. Not thread-safe."""

    def __init__(self) -> None:
        self._durations_ms: deque[int] = deque(maxlen=_BATCHES)
        self._behind = 0
        self._behind_since_ms = 0
        self._rows_at_ms: dict[int, int] = {}
        self._pauses_ms: dict[int, deque[int]] = {}

    def reported(self, report: BatchReport) -> None:
        """Adds a finished batch."""
        self._durations_ms.append(report.duration_ms)
        if report.input_rows_per_s > _FASTER * report.processed_rows_per_s > 0:
            self._behind += 1
            self._behind_since_ms = self._behind_since_ms or report.ended_at_ms
        else:
            self._behind = self._behind_since_ms = 0
        for position, source in enumerate(report.sources):
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
        )


def _median(numbers: Iterable[int]) -> int:
    return round(median(numbers))
