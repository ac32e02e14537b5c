"""What is true after each batch, known without running anything."""

from __future__ import annotations

import bisect
from typing import TYPE_CHECKING, Any

from tests.chaos.history.batch_log import a_file_each
from tests.chaos.history.timed_history import PROCESSING, TimedHistory
from tests.chaos.jobs.workload import (
    GROUP_SUMS,
    GROUPS,
    KEYS,
    RECENT,
    RECENT_LENGTH,
    SHARE_LIMIT,
    SHARES,
    SILENCES,
    TIMERS,
    TOTALS,
    WINDOW_SUMS,
    rows_of,
)

if TYPE_CHECKING:
    from tests.chaos.history.batch_log import Batch, BatchOf
    from tests.chaos.jobs.workload import Row

MISSING = None


class History:
    """The value of every key of every state after every batch up to the one asked for last.

    Values are as JSON has them: lists for rows and lists, pairs ordered by key for maps, and for
    windows by start; for timers clock and time, in the order in which they fire.
    """

    def __init__(self, seed: int, batch_of: BatchOf = a_file_each) -> None:
        self._seed = seed
        self._batch_of = batch_of
        self._next = 0
        self._timed = TimedHistory()
        self._fired: list[list[Any]] = []
        self._wrong_watermarks: list[str] = []
        # By state and key: the batches that changed it, and the values since then.
        self._batches: dict[tuple[str, str], list[int]] = {}
        self._values: dict[tuple[str, str], list[Any]] = {}
        self._shares: dict[str, dict[int, int]] = {}

    @staticmethod
    def keys_of(state: str) -> tuple[str, ...]:
        """Every key the state can have."""
        return GROUPS if state in (GROUP_SUMS, WINDOW_SUMS) else KEYS

    def value(self, state: str, key: str, version: int) -> Any:
        """The value after a batch; `MISSING` where there is none."""
        self._advance(version)
        batches = self._batches.get((state, key), [])
        at = bisect.bisect_right(batches, version) - 1
        return self._values[state, key][at] if at >= 0 else MISSING

    def last_missing(self, state: str, key: str, version: int) -> int:
        """The newest batch, up to `version`, after which the key had no value; -1: before all."""
        self._advance(version)
        batches = self._batches.get((state, key), [])
        values = self._values.get((state, key), [])
        until = version
        for batch, value in zip(reversed(batches), reversed(values), strict=True):
            if batch > version:
                continue
            if value is MISSING:
                return until
            until = batch - 1
        return until

    def rows(self, version: int) -> list[Row]:
        """The rows of a batch."""
        return [row for file in self._batch_of(version).files for row in rows_of(self._seed, file)]

    def fired(self, version: int) -> list[Any]:
        """What the windows put out in a batch, sorted: group, start, amount and count."""
        self._advance(version)
        found: list[Any] = self._fired[version]
        return found

    def ticks_pending(self, version: int) -> bool:
        """Whether timers of processing time are left after a batch."""
        self._advance(version)
        return any(
            clock == PROCESSING
            for key in KEYS
            for clock, _ in self.value(TIMERS, key, version) or ()
        )

    def wrong_watermarks(self, version: int) -> list[str]:
        """Batches up to one whose watermark the rows before them do not make."""
        self._advance(version)
        return self._wrong_watermarks

    def _advance(self, version: int) -> None:
        while self._next <= version:
            batch, rows = self._batch_of(self._next), self.rows(self._next)
            for row in rows:
                self._apply(row)
            self._advance_timed(batch, rows)
            self._next += 1

    def _advance_timed(self, batch: Batch, rows: list[Row]) -> None:
        timed = self._timed
        before = timed.watermark
        timed.advance(batch.timestamp_ms, rows, batch.watermark_ms)
        self._fired.append(timed.fired)
        if timed.is_wrong:
            self._wrong_watermarks.append(f"batch {self._next}: {timed.watermark} after {before}")
        for key in KEYS:
            self._change(SILENCES, key, timed.silences.get(key, MISSING))
            self._change(TIMERS, key, timed.pending(key) or MISSING)
        for group in GROUPS:
            self._change(WINDOW_SUMS, group, timed.live(group) or MISSING)

    def _change(self, state: str, key: str, value: Any) -> None:
        if value != self._newest(state, key):
            self._set(state, key, value)

    def _apply(self, row: Row) -> None:
        count, total, _ = self._newest(TOTALS, row.key) or (0, 0, 0)
        self._set(TOTALS, row.key, [count + 1, total + row.amount, row.number])
        recent = self._newest(RECENT, row.key) or []
        if count and count % RECENT_LENGTH == 0:
            recent = []
        self._set(RECENT, row.key, [*recent, row.number])
        shares = self._shares.setdefault(row.key, {})
        share = row.amount % 5
        shares[share] = shares.get(share, 0) + 1
        if shares[share] == SHARE_LIMIT:
            del shares[share]
        self._set(SHARES, row.key, [list(item) for item in sorted(shares.items())] or MISSING)
        ones, amount = self._newest(GROUP_SUMS, row.group) or (0, 0)
        self._set(GROUP_SUMS, row.group, [ones + 1, amount + row.amount])

    def _newest(self, state: str, key: str) -> Any:
        values = self._values.get((state, key))
        return values[-1] if values else MISSING

    def _set(self, state: str, key: str, value: Any) -> None:
        batches = self._batches.setdefault((state, key), [])
        values = self._values.setdefault((state, key), [])
        if batches and batches[-1] == self._next:
            values[-1] = value
        else:
            batches.append(self._next)
            values.append(value)
