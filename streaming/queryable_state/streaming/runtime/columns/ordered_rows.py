"""Rows of an input that a task holds until it has all of them, to sort them.

The sort reads all rows before it returns the first. Above a memory bound the rows are spilled to
a file in the executor's temporary folder, which is memory-mapped for reading.
"""

from __future__ import annotations

import mmap
import tempfile
from contextlib import ExitStack
from typing import IO, TYPE_CHECKING

import numpy as np
import pyarrow as pa

from queryable_state.streaming.runtime.columns.batch_coalescing import ChunkBuffer
from queryable_state.streaming.runtime.columns.row_order import order_codes, sorted_rows, split_code
from queryable_state.streaming.runtime.columns.row_parts import taken_rows

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from queryable_state.streaming.runtime.columns.row_order import OrderColumn

MOST_BYTES = 256 << 20
"""Maximum bytes of rows that a task sorts in memory."""


def in_order(
    held: HeldRows, order: Sequence[OrderColumn], split_column: str, chunk_rows: int
) -> Iterator[pa.RecordBatch]:
    """The held rows sorted by `order`, in batches of `chunk_rows`; unsorted without an order.

    Rows that are equal in all order columns are sorted by input partition number, then by position
    in the partition, so that a replayed task has the same order.
    """
    parts = held.batches()
    if not parts:
        return
    table = pa.Table.from_batches(parts)
    keys = [(key, key.of(table)) for key in order]
    rows = sorted_rows(order_codes(keys) + split_code(table, split_column)) if order else None
    del keys
    if rows is None:
        chunks = ChunkBuffer(chunk_rows)
        for batch in table.to_batches(max_chunksize=chunk_rows):
            yield from chunks.add(batch)
        yield from chunks.flush()
        return
    firsts = np.cumsum([0, *(part.num_rows for part in parts[:-1])])
    for start in range(0, len(rows), chunk_rows):
        yield from taken_rows(parts, firsts, rows[start : start + chunk_rows])


class HeldRows:
    """Rows in memory up to a bound, above it all of them in an unnamed file."""

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._most_bytes = most_bytes
        self._batches: list[pa.RecordBatch] = []
        self._bytes = 0
        self._spilled = ExitStack()
        self._file: IO[bytes] | None = None
        self._writer: pa.ipc.RecordBatchFileWriter | None = None

    def add(self, batch: pa.RecordBatch) -> None:
        """Adds the next rows."""
        if self._writer is not None:
            self._writer.write_batch(batch)
            return
        self._batches.append(batch)
        self._bytes += batch.nbytes
        if self._bytes > self._most_bytes:
            self._spill(batch.schema)

    def batches(self) -> list[pa.RecordBatch]:
        """All rows, in the order they were added."""
        if self._writer is None:
            whole = pa.Table.from_batches(self._batches).combine_chunks() if self._batches else None
            return [] if whole is None else whole.to_batches()
        assert self._file is not None
        self._writer.close()
        self._file.flush()
        mapped = mmap.mmap(self._file.fileno(), 0, access=mmap.ACCESS_READ)
        reader = pa.ipc.open_file(pa.py_buffer(mapped))
        return [reader.get_batch(number) for number in range(reader.num_record_batches)]

    def _spill(self, schema: pa.Schema) -> None:
        self._file = self._spilled.enter_context(
            tempfile.TemporaryFile(prefix="ordered-rows-")  # noqa: SIM115 - the stack closes it
        )
        self._writer = self._spilled.enter_context(pa.ipc.new_file(self._file, schema))
        batches, self._batches = self._batches, []
        for batch in batches:
            self._writer.write_batch(batch)

    def close(self) -> None:
        """Releases the rows and the file."""
        self._batches = []
        self._spilled.close()
