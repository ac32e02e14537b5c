"""Columnar execution of the latest-value sink, which keeps the last element of each key."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from queryable_state.streaming.runtime.columns.row_order import last_rows, order_codes, split_code
from queryable_state.streaming.runtime.columns.value_columns import cast_column
from queryable_state.streaming.runtime.operators.operator_run import OperatorRun
from queryable_state.streaming.runtime.operators.window_eviction import WindowEviction
from queryable_state.streaming.runtime.states.column_state import ColumnState
from queryable_state.streaming.runtime.states.task_states import TaskStates
from queryable_state.wire.errors import InvalidRequestError
from queryable_state.wire.schema.types import Kind

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from queryable_state.streaming.runtime.columns.row_order import OrderColumn
    from queryable_state.streaming.runtime.operators.operator_run import Output
    from queryable_state.streaming.runtime.operators.operators import LatestValueSink
    from queryable_state.streaming.runtime.operators.spec import OperatorSpec
    from queryable_state.streaming.runtime.states.access import StateAccess
    from queryable_state.streaming.runtime.states.input_spec import InputSpec
    from queryable_state.streaming.runtime.states.key_table import Slots
    from queryable_state.streaming.runtime.states.state_spec import TaskIdentity


class LatestValueRun(OperatorRun):
    """Keeps the last element of each key; emits nothing.

    Without `latest_by` that is the batch's last element by the order of the operator, and no state
    is read. With `latest_by` an element replaces the stored one unless it is smaller: of equal
    elements the later batch's wins, and within a batch the last. The stored order is read once per
    key. A null element of a stream of bare values removes the stored value. If windows are apart
    from the key, each key and window has a value of its own.
    """

    def __init__(
        self, sink: LatestValueSink, spec: OperatorSpec, task: TaskIdentity, access: StateAccess
    ) -> None:
        super().__init__(spec, task, access)
        self._sink = sink
        self._value = ColumnState(sink.descriptor)
        self._order = None if sink.order_descriptor is None else ColumnState(sink.order_descriptor)
        self._newest = _Newest(sink, spec.input, self.where)
        self._windows: WindowEviction | None = None
        if sink.window is not None:
            self._windows = WindowEviction(sink.window, self._open(), self.where)

    def open(self) -> None:
        timers = None if self._windows is None else self._windows.timers
        self._owned = TaskStates(self.spec, self._task, self._access, self._open(), timers=timers)

    def _open(self) -> Sequence[ColumnState]:
        return [self._value] if self._order is None else [self._value, self._order]

    def fire_timers(self) -> Iterator[Output]:
        if self._windows is not None:
            self._windows.fire(self.owned.watermark_ms)
        return iter(())

    def process(self, number: int, batch: pa.RecordBatch) -> Iterator[Output]:
        slots = self.owned.start_chunk(batch, self.spec.inputs[number])
        if self._windows is not None:
            slots = self._windows.slots(self.owned, slots, batch)
        self._newest.add(slots, batch)
        return iter(())

    def finish(self) -> Iterator[Output]:
        newest, order, latest_by = self._newest, self._order, self._sink.latest_by
        slots, rows = newest.chosen()
        if rows is not None and latest_by:
            stored = self._value if order is None else order
            self.owned.fetch(stored, self._stored_slots())
            positions = (
                range(len(latest_by))
                if order is not None
                else [self.spec.input.value_columns.index(key.column) for key in latest_by]
            )
            stored_slots, columns = stored.fetched_fields(positions)
            if order is None:
                columns = [
                    key.within(column) for key, column in zip(latest_by, columns, strict=True)
                ]
            kept = _not_older(latest_by, (stored_slots, columns), (slots, newest.order_of(rows)))
            slots, rows = slots[kept], rows.take(pa.array(kept))
            if order is not None:
                order.put(newest.order_of(rows), slots)
        if rows is not None:
            self._value.put(newest.values_of(rows), slots)
            if self._windows is not None:
                self._windows.register(self.owned, slots, rows)
        return iter(())

    def _stored_slots(self) -> Sequence[int]:
        """The slots that may have a stored value: not those whose value this batch has removed."""
        table = self._value.table
        slots = range(len(table))
        removed = {} if self._windows is None else self._windows.removed
        return [slot for slot in slots if table.prefix(slot) not in removed] if removed else slots


@dataclass
class _Newest:
    """The last row of each key: selected per chunk, then over the batch."""

    sink: LatestValueSink
    input: InputSpec
    where: str
    _slots: list[Slots] = field(default_factory=list)
    _rows: list[pa.Table] = field(default_factory=list)

    def __post_init__(self) -> None:
        sink, spec = self.sink, self.input
        info = sink.descriptor.value_type
        assert info is not None
        self._types = [field.type for field in info.fields] if info.kind == Kind.ROW else [info]
        if len(self._types) != len(spec.value_columns):
            raise InvalidRequestError(
                f"{self.where}: state {sink.descriptor.name!r} is {info}, but the elements "
                f"have the columns {', '.join(spec.value_columns)}: declare a ROW with one field "
                "per column, or select fewer columns"
            )
        self._order = (*sink.latest_by, *spec.order)
        columns = [*spec.value_columns, *(key.column for key in self._order)]
        if sink.window is not None:
            columns.append(sink.window.column)
        if spec.split_column:
            columns.append(spec.split_column)
        self._columns = list(dict.fromkeys(columns))

    def add(self, slots: Slots, batch: pa.RecordBatch) -> None:
        """Adds the rows of a chunk."""
        distinct, rows = self._last_rows(slots, batch)
        self._slots.append(distinct)
        self._rows.append(pa.Table.from_batches([batch]).select(self._columns).take(pa.array(rows)))

    def chosen(self) -> tuple[Slots, pa.Table | None]:
        """The slots of the batch and the last row of each; None if the batch has no rows."""
        if not self._rows:
            return np.empty(0, dtype=np.int64), None
        slots = np.concatenate(self._slots)
        table = pa.concat_tables(self._rows).combine_chunks()
        distinct, rows = self._last_rows(slots, table)
        return distinct, table.take(pa.array(rows))

    def values_of(self, rows: pa.Table) -> list[pa.Array]:
        """The columns of the state's values."""
        state = self.sink.descriptor.name
        return [
            cast_column(
                rows.column(name).combine_chunks(),
                of,
                f"{self.where}: state {state!r}, column {name!r}",
            )
            for name, of in zip(self.input.value_columns, self._types, strict=True)
        ]

    def order_of(self, rows: pa.Table) -> list[pa.Array]:
        """The columns of `latest_by`."""
        return [
            cast_column(
                key.of(rows).combine_chunks(),
                key.type,
                f"{self.where}: latest_by {key.name!r}",
            )
            for key in self.sink.latest_by
        ]

    def _last_rows(self, slots: Slots, rows: pa.RecordBatch | pa.Table) -> tuple[Slots, Slots]:
        keys = [(key, key.of(rows)) for key in self._order]
        return last_rows(slots, order_codes(keys) + split_code(rows, self.input.split_column))


def _not_older(
    latest_by: Sequence[OrderColumn],
    stored: tuple[Slots, list[pa.Array]],
    found: tuple[Slots, list[pa.Array]],
) -> Slots:
    """Indexes of the found rows that are not smaller than the stored row of their slot."""
    slots = np.concatenate([stored[0], found[0]])
    keys = [
        (key, pa.chunked_array([before, now]))
        for key, before, now in zip(latest_by, stored[1], found[1], strict=True)
    ]
    _, rows = last_rows(slots, order_codes(keys))
    first = len(stored[0])
    return rows[rows >= first] - first
