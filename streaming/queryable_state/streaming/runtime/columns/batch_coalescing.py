"""Coalescing of a task's Arrow batches, so that a key is looked up less often."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Iterator

_MOST_BYTES = 64 << 20


def gathered(batches: Iterator[pa.RecordBatch], rows: int) -> Iterator[pa.RecordBatch]:
    """The same rows in batches of at least `rows` rows or 64 MiB; the last one may be smaller."""
    parts: list[pa.RecordBatch] = []
    held_rows = held_bytes = 0
    for batch in batches:
        parts.append(batch)
        held_rows += batch.num_rows
        held_bytes += batch.nbytes
        if held_rows >= rows or held_bytes >= _MOST_BYTES:
            yield from _joined(parts)
            parts, held_rows, held_bytes = [], 0, 0
    yield from _joined(parts)


def _joined(parts: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    if len(parts) < 2:
        return parts
    joined: list[pa.RecordBatch] = pa.Table.from_batches(parts).combine_chunks().to_batches()
    return joined
