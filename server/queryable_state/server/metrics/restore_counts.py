"""Counters of the restores of a state server."""

from __future__ import annotations

from dataclasses import dataclass, field

from queryable_state.server.metrics.durations import STORAGE_BOUNDS_S, Durations


@dataclass(eq=False, slots=True)
class RestoreCounts:
    """Restores of subtasks. For the event loop."""

    durations: Durations = field(default_factory=lambda: Durations(STORAGE_BOUNDS_S))
    """Durations of successful restores."""
    failed: int = 0
    downloaded_bytes: int = 0
    reused_bytes: int = 0
    """Bytes of the server's own copies."""
