"""Batches of the last hour, thinned out."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from queryable_state.v1 import status_pb2

if TYPE_CHECKING:
    from collections.abc import Iterator

_HOUR_MS = 3_600_000
_MINUTE_MS = 60_000
_POINTS = 720
_BUCKET_MS = _HOUR_MS // _POINTS
# A report may follow the next batches' commits.
_LATE = 4


class BatchHistory:
    """At most one point in 5 seconds, 720 in all. Not thread-safe.

    A commit and the engine's report of the same batch arrive in any order.
    """

    def __init__(self) -> None:
        self._points: deque[status_pb2.HistoryPoint] = deque(maxlen=_POINTS)

    def committed(self, batch_id: int, at_ms: int, commit_ms: int, watermark_ms: int) -> None:
        """Adds a batch that all servers have committed."""
        point = self._point(batch_id, at_ms)
        point.commit_ms = max(point.commit_ms, commit_ms)
        point.watermark_ms = max(point.watermark_ms, watermark_ms)

    def reported(self, batch_id: int, at_ms: int, rows: int, batch_ms: int) -> None:
        """Adds what the engine reports of a batch."""
        point = self._point(batch_id, at_ms)
        point.rows += rows
        point.batch_ms = max(point.batch_ms, batch_ms)

    def since(self, at_ms: int) -> Iterator[status_pb2.HistoryPoint]:
        """The points at a time or later, oldest first."""
        return (point for point in self._points if point.at_ms >= at_ms)

    def rows_per_s(self, now_ms: int) -> float:
        """Rows of the batches of the last minute, a second; of a younger job, since it began."""
        if not self._points:
            return 0.0
        known_ms = now_ms - self._points[0].at_ms + _BUCKET_MS
        rows = sum(point.rows for point in self.since(now_ms - _MINUTE_MS))
        return 1000 * rows / max(_BUCKET_MS, min(_MINUTE_MS, known_ms))

    def last_hour(self, now_ms: int) -> Iterator[status_pb2.HistoryPoint]:
        """The points of the last hour, oldest first."""
        return self.since(now_ms - _HOUR_MS)

    def _point(self, batch_id: int, at_ms: int) -> status_pb2.HistoryPoint:
        for back in range(1, min(_LATE, len(self._points)) + 1):
            point = self._points[-back]
            first = self._points[-back - 1].batch_id + 1 if back < len(self._points) else batch_id
            if first <= batch_id <= point.batch_id:
                return point
        last = self._points[-1] if self._points else None
        if last is None or last.at_ms // _BUCKET_MS != at_ms // _BUCKET_MS:
            last = status_pb2.HistoryPoint()
            self._points.append(last)
        last.batch_id, last.at_ms = max(batch_id, last.batch_id), max(at_ms, last.at_ms)
        return last
