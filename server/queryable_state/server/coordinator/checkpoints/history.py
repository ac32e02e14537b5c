"""History of the checkpoints and savepoints of each query."""

from __future__ import annotations

import threading
from collections import Counter, deque
from dataclasses import dataclass, field, replace
from typing import Literal

from queryable_state.server.metrics.durations import STORAGE_BOUNDS_S, Durations
from queryable_state.wire.errors import CheckpointError

CheckpointState = Literal["completed", "failed", "declined"]

_KEPT = 100
_QUERIES = 100


class DeclinedError(CheckpointError):
    """The job cannot be written as a whole now; retry at its next commit."""


class InterruptedSnapshotError(CheckpointError):
    """The snapshot was given up because a server left or the job ended, not by its storage."""


@dataclass(frozen=True, kw_only=True)
class CheckpointReport:
    """One attempt at a checkpoint or savepoint."""

    checkpoint_id: int
    """0: of a savepoint, or of an attempt that was declined."""
    savepoint: bool
    state: CheckpointState
    version: int
    """The committed batch it is, or would have been, as of; -1: there was none."""
    triggered_at_ms: int
    """Milliseconds since the epoch."""
    duration_ms: int
    bytes: int = 0
    """Of all files it names and what it has inlined."""
    new_bytes: int = 0
    """Of those written for it; the rest is shared with older ones."""
    path: str = ""
    """URI of its folder; empty: it was declined."""
    failure: str = ""
    """Why it failed or was declined, as text."""
    attempts: int = 1
    """Times in a row it was declined for the same reason, at newer and newer versions."""


@dataclass(eq=False, slots=True)
class SnapshotTotals:
    """Attempts, durations and bytes since the driver started. One thread adds at a time."""

    attempts: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Attempts by kind (checkpoint or savepoint) and outcome."""
    durations: Durations = field(default_factory=lambda: Durations(STORAGE_BOUNDS_S))
    """Durations of completed ones."""
    new_bytes: int = 0
    """Bytes written for completed ones."""

    def add(self, kind: str, outcome: str, duration_ms: int, new_bytes: int) -> None:
        """Counts an attempt that is over."""
        self.attempts[kind, outcome] += 1
        if outcome == "completed":
            self.durations.add(duration_ms / 1000)
            self.new_bytes += new_bytes


class CheckpointHistory:
    """The newest attempts of each of the newest queries. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._reports: dict[bytes, deque[CheckpointReport]] = {}
        self._totals: dict[bytes, SnapshotTotals] = {}

    def add(self, query_id: bytes, report: CheckpointReport) -> None:
        """Adds an attempt that is over; repeated declines count on in one entry."""
        with self._lock:
            reports = self._reports.pop(query_id, None) or deque(maxlen=_KEPT)
            self._reports[query_id] = reports
            self._totals.setdefault(query_id, SnapshotTotals()).add(
                "savepoint" if report.savepoint else "checkpoint",
                report.state,
                report.duration_ms,
                report.new_bytes,
            )
            if len(self._reports) > _QUERIES:
                oldest = next(iter(self._reports))
                del self._reports[oldest], self._totals[oldest]
            last = reports[-1] if reports else None
            if last and last.state == report.state == "declined" and last.failure == report.failure:
                reports[-1] = replace(report, attempts=last.attempts + 1)
            else:
                reports.append(report)

    def of(self, query_id: bytes) -> list[CheckpointReport]:
        """The attempts at checkpoints and savepoints of a query in this driver, newest first."""
        with self._lock:
            return list(reversed(self._reports.get(query_id, ())))

    def totals(self, query_id: bytes) -> SnapshotTotals:
        """The totals of a query, also of attempts that are not kept any more."""
        with self._lock:
            return self._totals.get(query_id) or SnapshotTotals()
