"""Durations and failures of the internal calls of one service."""

from __future__ import annotations

from collections import Counter, defaultdict

from queryable_state.server.metrics.durations import BATCH_BOUNDS_S, Durations


class CallCounts:
    """Durations and failures by name of the call. One thread adds; any thread reads."""

    def __init__(self) -> None:
        self.durations: defaultdict[str, Durations] = defaultdict(lambda: Durations(BATCH_BOUNDS_S))
        """Durations by call, of failed calls too."""
        self.failed: Counter[tuple[str, str]] = Counter()
        """Failed calls by call and reason."""
