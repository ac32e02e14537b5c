"""Coalescing of a task's Arrow batches, so that a key is looked up less often."""

from __future__ import annotations

import pyarrow as pa

_MOST_BYTES = 64 << 20


class ChunkBuffer:
    """The same rows in chunks of at least `rows` rows or 64 MiB; the last one may be smaller."""

    def __init__(self, rows: int) -> None:
        self._rows = rows
        self._parts: list[pa.RecordBatch] = []
        self._held_rows = self._held_bytes = 0

    def add(self, batch: pa.RecordBatch) -> list[pa.RecordBatch]:
        """Adds rows; returns a chunk once there are enough."""
        self._parts.append(batch)
        self._held_rows += batch.num_rows
        self._held_bytes += batch.nbytes
        if self._held_rows >= self._rows or self._held_bytes >= _MOST_BYTES:
            return self.flush()
        return []

    def flush(self) -> list[pa.RecordBatch]:
        """Returns the buffered rows."""
        parts, self._parts = self._parts, []
        self._held_rows = self._held_bytes = 0
        if len(parts) < 2:
            return parts
        joined: list[pa.RecordBatch] = pa.Table.from_batches(parts).combine_chunks().to_batches()
        return joined
