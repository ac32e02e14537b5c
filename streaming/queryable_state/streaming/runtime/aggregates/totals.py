"""Aggregates of one task by slot: of keys and windows, or of keys and panes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from queryable_state.streaming.runtime.aggregates.accumulators import accumulator, overflow_error
from queryable_state.streaming.runtime.columns.value_columns import cast_column

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from queryable_state.streaming.runtime.aggregates.window_slots import WindowSlots
    from queryable_state.streaming.runtime.aggregates.windowed_aggregate import StoredColumn
    from queryable_state.streaming.runtime.states.key_table import Slots


class WindowTotals:
    """The stored columns of a windowed aggregate, by the slots of a table."""

    def __init__(self, stored: Sequence[StoredColumn], slots: WindowSlots, where: str) -> None:
        self.slots = slots
        self._stored = stored
        self._where = where
        self._columns = [accumulator(each.aggregate, self._overflow_of(each)) for each in stored]

    def inputs(self, batch: pa.RecordBatch) -> list[pa.Array]:
        """The columns of rows that are added, one for each stored column."""
        return [self._input(batch, each) for each in self._stored]

    def add(self, slots: Slots, columns: Sequence[pa.Array]) -> None:
        """Adds rows to these slots, in their order."""
        for totals, column in zip(self._columns, columns, strict=True):
            totals.grow(len(self.slots))
            totals.add(slots, column)

    def merge(self, slots: Slots, other: WindowTotals, rows: Slots) -> None:
        """Adds, to each of these slots, the aggregates of the other table's slot in `rows`."""
        for totals, added in zip(self._columns, other._columns, strict=True):
            totals.grow(len(self.slots))
            totals.merge(slots, added, rows)

    def columns(self) -> list[pa.Array]:
        """The aggregates of all slots; counts are never null."""
        return [totals.column() for totals in self._columns]

    def _input(self, batch: pa.RecordBatch, stored: StoredColumn) -> pa.Array:
        if not stored.source:
            return pa.array(np.ones(batch.num_rows, dtype=np.int64))
        column = batch.column(stored.source)
        if stored.is_count:
            return column.is_valid().cast(pa.int64())
        described = f"{self._where}: column {stored.source!r}"
        return cast_column(column, stored.aggregate.type, described)

    def _overflow_of(self, stored: StoredColumn) -> Callable[[int], Exception]:
        aggregate = stored.aggregate
        return lambda slot: overflow_error(
            f"{self._where}: the {aggregate.kind} of column {stored.source!r} for key "
            f"{self.slots.shown(slot)}",
            aggregate.type,
        )
