"""Feed of an operator: its rows as chunks, in the order in which the operator reads them.

Rows of a batch are read as they arrive if the operator has one input without an order. Otherwise
the task holds the rows of the batch: an operator with an order reads them sorted, and an operator
with several inputs reads first all broadcast elements, then its other inputs one after another.
"""

from __future__ import annotations

import mmap
import tempfile
from contextlib import ExitStack
from typing import IO, TYPE_CHECKING, Self

import numpy as np
import pyarrow as pa

from queryable_state.streaming.runtime.columns.row_order import order_codes, sorted_rows, split_code
from queryable_state.streaming.runtime.columns.row_parts import taken_rows

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from queryable_state.streaming.runtime.columns.row_order import OrderColumn
    from queryable_state.streaming.runtime.operators.operator_run import OperatorRun, Output


_CHUNK_BYTES = 64 << 20
MOST_BYTES = 256 << 20
"""Maximum bytes of rows that a task sorts in memory."""


class ChunkBuffer:
    """The same rows in chunks of at least `rows` rows or 64 MiB; the last one may be smaller.

    The larger a chunk, the less often a key is looked up.
    """

    def __init__(self, rows: int) -> None:
        self._rows = rows
        self._parts: list[pa.RecordBatch] = []
        self._held_rows = self._held_bytes = 0

    def add(self, batch: pa.RecordBatch) -> list[pa.RecordBatch]:
        """Adds rows; returns a chunk once there are enough."""
        self._parts.append(batch)
        self._held_rows += batch.num_rows
        self._held_bytes += batch.nbytes
        if self._held_rows >= self._rows or self._held_bytes >= _CHUNK_BYTES:
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
    """Rows in memory up to a bound, above it all of them in an unnamed file.

    The file is in the executor's temporary folder, and is memory-mapped for reading.
    """

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


class OperatorFeed:
    """The rows of one operator in one task. Leaving the context releases held rows."""

    def __init__(self, run: OperatorRun) -> None:
        spec = run.spec
        self._run = run
        self._numbers: dict[int, list[int]] = {}
        for number, each in enumerate(spec.inputs):
            self._numbers.setdefault(each.place, []).append(number)
        self._chunk_rows = spec.settings.chunk_rows
        self._chunks = ChunkBuffer(self._chunk_rows)
        held = len(spec.inputs) > 1 or (run.reads_in_order and bool(spec.input.order))
        self._held = [HeldRows() for _ in spec.inputs] if held else []

    def add(self, place: int, batch: pa.RecordBatch) -> Iterator[Output]:
        """Processes rows of one input of the stage, or holds them; ignores other inputs' rows."""
        for number in self._numbers.get(place, ()):
            if self._held:
                self._held[number].add(batch)
                continue
            for chunk in self._chunks.add(batch):
                yield from self._run.process(number, chunk)

    def finish(self) -> Iterator[Output]:
        """Processes all rows that are left, then finishes the operator."""
        for chunk in self._chunks.flush():
            yield from self._run.process(0, chunk)
        inputs = self._run.spec.inputs
        for number in sorted(range(len(self._held)), key=lambda n: not inputs[n].is_broadcast):
            rows = inputs[number]
            order = rows.order if self._run.reads_in_order else ()
            for chunk in in_order(self._held[number], order, rows.split_column, self._chunk_rows):
                yield from self._run.process(number, chunk)
            self._held[number].close()
        yield from self._run.finish()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        for held in self._held:
            held.close()
