"""A batch function with a row state and a removable state, and the same row by row."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from queryable_state.streaming import (
    BatchKeys,
    BatchRuntimeContext,
    BatchState,
    KeyedBatchProcessFunction,
    Types,
    ValueStateDescriptor,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from queryable_state.streaming import ValueColumn

TOTALS = Types.ROW_NAMED(["n", "total", "note"], [Types.LONG(), Types.LONG(), Types.STRING()])
INPUT = "k STRING, g INT, v BIGINT, note STRING"
OUTPUT = "k STRING, g INT, n BIGINT, total BIGINT, last BIGINT"


class RunningTotals(KeyedBatchProcessFunction):
    """Adds the rows of each key in order. Emits, for each row, the values behind it.

    The state `last` has the newest value of a key; a null removes it. `partial` makes the function
    write only the keys whose position is even through positions, the others through a mask.
    """

    def __init__(self, *, partial: bool = False) -> None:
        self.partial = partial

    def open(self, runtime_context: BatchRuntimeContext) -> None:
        totals = ValueStateDescriptor("totals", TOTALS)
        totals.set_queryable("totals")
        runtime_context.get_state(totals)
        self.last = runtime_context.get_state(ValueStateDescriptor("last", "bigint"))

    def process_batch(self, keys: BatchKeys, table: pa.Table, state: BatchState) -> pa.Table:
        totals: list[Any] = [
            None if row is None else (row["n"], row["total"], row["note"])
            for row in state["totals"].values().to_pylist()
        ]
        last = self.last.values().to_pylist()
        rows = []
        for position, (k, g, v, note) in zip(
            keys.indices.to_pylist(), zip(*table.to_pydict().values(), strict=True), strict=True
        ):
            totals[position], last[position] = step(totals[position], v, note)
            rows.append((k, g, *totals[position][:2], last[position]))
        names = ["n", "total", "note"]
        columns = [pa.array(c) for c in zip(*totals, strict=True)]
        whole = pa.StructArray.from_arrays(columns, names=names)
        newest = pa.array(last, pa.int64())
        if self.partial:
            self._write_in_parts(state["totals"], whole)
            self._write_in_parts(self.last, newest)
        else:
            state["totals"].update(pa.table(columns, names=names))
            self.last.update(newest)
        return pa.table(
            [pa.array(c) for c in zip(*rows, strict=True)], names=["k", "g", "n", "total", "last"]
        )

    def _write_in_parts(self, state: ValueColumn, column: pa.Array) -> None:
        even = np.arange(0, len(column), 2)
        state.update(column.take(pa.array(even)), even)
        odd = np.arange(len(column)) % 2 == 1
        state.update(column.filter(pa.array(odd)), pa.array(odd))


def step(totals: Any, v: int | None, note: str | None) -> tuple[Any, int | None]:
    """The totals behind a row, and the last value."""
    n, total, _ = totals or (0, 0, None)
    return (n + 1, total + (v or 0), note), v


class Oracle:
    """The same function, row by row on dictionaries."""

    def __init__(self) -> None:
        self.totals: dict[Any, Any] = {}
        self.last: dict[Any, Any] = {}

    def process(self, rows: Sequence[Any]) -> list[Any]:
        outputs = []
        for k, g, v, note in rows:
            self.totals[k, g], self.last[k, g] = step(self.totals.get((k, g)), v, note)
            outputs.append((k, g, *self.totals[k, g][:2], self.last[k, g]))
        return outputs
