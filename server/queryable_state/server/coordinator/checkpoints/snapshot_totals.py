"""Totals of the checkpoints and savepoints of a job."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from queryable_state.server.metrics.durations import STORAGE_BOUNDS_S, Durations

if TYPE_CHECKING:
    from queryable_state.server.coordinator.checkpoints.history import CheckpointReport


@dataclass(eq=False, slots=True)
class SnapshotTotals:
    """Attempts, durations and bytes since the driver started. One thread adds at a time."""

    attempts: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Attempts by kind (checkpoint or savepoint) and outcome."""
    durations: Durations = field(default_factory=lambda: Durations(STORAGE_BOUNDS_S))
    """Durations of completed ones."""
    new_bytes: int = 0
    """Bytes written for completed ones."""

    def add(self, report: CheckpointReport) -> None:
        """Counts an attempt that is over."""
        self.attempts["savepoint" if report.savepoint else "checkpoint", report.state] += 1
        if report.state == "completed":
            self.durations.add(report.duration_ms / 1000)
            self.new_bytes += report.new_bytes
