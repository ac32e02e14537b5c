"""Totals of the checkpoints and savepoints of a job."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from queryable_state.server.metrics.durations import STORAGE_BOUNDS_S, Durations


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
