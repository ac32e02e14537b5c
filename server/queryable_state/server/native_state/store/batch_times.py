"""Timestamps of the batches of a query, by which its values expire."""

from __future__ import annotations

# More batches than a server keeps versions.
_KEPT = 1024


class BatchTimes:
    """Spark's timestamp of each batch, milliseconds since the epoch. Usable from every thread."""

    def __init__(self) -> None:
        self._times: dict[int, int] = {}

    def add(self, batch_id: int, timestamp_ms: int) -> None:
        """Adds a batch, newer than all others; forgets the oldest one above a bound."""
        times = self._times
        if len(times) >= _KEPT:
            times = dict(list(times.items())[-_KEPT // 2 :])
        # Replaced as a whole: another thread may be iterating the old one.
        self._times = {**times, batch_id: timestamp_ms}

    def at(self, version: int) -> int:
        """The timestamp of the newest known batch up to `version`; 0: no batch is known."""
        times = self._times
        found = times.get(version)
        if found is not None:
            return found
        return times[max(known)] if (known := [each for each in times if each <= version]) else 0
