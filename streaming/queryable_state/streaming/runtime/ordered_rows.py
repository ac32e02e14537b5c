"""A task's rows in the order the operator asked for, over all Arrow batches of the task.

All rows are taken before the first one leaves. What is beyond a bound in memory waits in a
file of the executor's temporary folder, which is read by mapping it.
"""

from __future__ import annotations

import mmap
import tempfile
from contextlib import ExitStack
from typing import IO, TYPE_CHECKING

import numpy as np
import pyarrow as pa

from queryable_state.streaming.runtime.row_order import sorted_by, sorted_rows

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from queryable_state.streaming.runtime.row_order import Numbers, OrderColumn
    from queryable_state.streaming.runtime.spec import OperatorSpec

MOST_BYTES = 256 << 20
"""Of rows that a task holds in memory to order them."""


def in_order(
    batches: Iterator[pa.RecordBatch], spec: OperatorSpec, *, most_bytes: int = MOST_BYTES
) -> Iterator[pa.RecordBatch]:
    """The same rows by `spec.order`, in batches of `spec.settings.chunk_rows`.

    Rows that are equal in all columns of the order stay in the order of their input
    partition, and rows of different ones by its number, so that a task that runs again sees
    the same order.
    """
    with _HeldRows(most_bytes) as held:
        for batch in batches:
            held.add(batch)
        table = held.table()
        if table is None:
            return
        rows = arranged(table, spec.order, spec.split_column)
        for start in range(0, table.num_rows, spec.settings.chunk_rows):
            piece = (
                table.slice(start, spec.settings.chunk_rows)
                if rows is None
                else table.take(pa.array(rows[start : start + spec.settings.chunk_rows]))
            )
            yield from piece.combine_chunks().to_batches()


def arranged(
    table: pa.Table | pa.RecordBatch, order: Sequence[OrderColumn], split_column: str
) -> Numbers | None:
    """The numbers of the rows in order; None: they are in order."""
    # By partition first: sorting is stable, so that this decides between equal rows.
    rows: Numbers | None = None
    if split_column:
        splits = table.column(split_column)
        rows = sorted_by([np.asarray(splits).astype(np.int64)])
        if rows is not None:
            table = table.select(list({key.column: None for key in order})).take(pa.array(rows))
    step = sorted_rows([(key, key.of(table)) for key in order])
    if rows is None or step is None:
        return rows if step is None else step
    found: Numbers = rows[step]
    return found


class _HeldRows:
    """Rows in memory up to a bound; beyond it all of them in a file without a name."""

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._batches: list[pa.RecordBatch] = []
        self._bytes = 0
        self._spilled = ExitStack()
        self._file: IO[bytes] | None = None
        self._writer: pa.ipc.RecordBatchFileWriter | None = None

    def add(self, batch: pa.RecordBatch) -> None:
        """Take the next rows."""
        if self._writer is not None:
            self._writer.write_batch(batch)
            return
        self._batches.append(batch)
        self._bytes += batch.nbytes
        if self._bytes > self._most_bytes:
            self._spill(batch.schema)

    def table(self) -> pa.Table | None:
        """All rows, in the order they were added; None: there are none."""
        if self._writer is not None:
            assert self._file is not None
            self._writer.close()
            self._file.flush()
            mapped = mmap.mmap(self._file.fileno(), 0, access=mmap.ACCESS_READ)
            table: pa.Table = pa.ipc.open_file(pa.py_buffer(mapped)).read_all()
            return table
        return pa.Table.from_batches(self._batches) if self._batches else None

    def _spill(self, schema: pa.Schema) -> None:
        self._file = self._spilled.enter_context(
            tempfile.TemporaryFile(prefix="ordered-rows-")  # noqa: SIM115 - the stack closes it
        )
        self._writer = self._spilled.enter_context(pa.ipc.new_file(self._file, schema))
        batches, self._batches = self._batches, []
        for batch in batches:
            self._writer.write_batch(batch)

    def __enter__(self) -> _HeldRows:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._spilled.close()
