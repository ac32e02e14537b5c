"""The latest-value sink: the last element of each key, chosen in columns."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from queryable_state.streaming.runtime.columns.batch_coalescing import gathered
from queryable_state.streaming.runtime.columns.row_order import last_rows, order_codes, split_code
from queryable_state.streaming.runtime.columns.value_columns import cast_column
from queryable_state.streaming.runtime.states.column_state import ColumnState
from queryable_state.streaming.runtime.states.task_states import TaskStates
from queryable_state.wire.errors import InvalidRequestError
from queryable_state.wire.schema.types import Kind

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Sequence

    from queryable_state.streaming.runtime.columns.row_order import OrderColumn
    from queryable_state.streaming.runtime.operators.operators import LatestValueSink
    from queryable_state.streaming.runtime.operators.spec import OperatorSpec
    from queryable_state.streaming.runtime.states.access import StateAccess
    from queryable_state.streaming.runtime.states.key_table import Slots
    from queryable_state.streaming.runtime.states.state_spec import TaskIdentity


def run_latest(
    sink: LatestValueSink,
    spec: OperatorSpec,
    task: TaskIdentity,
    access: StateAccess,
    batches: Iterator[pa.RecordBatch],
) -> Generator[pa.RecordBatch, None, None]:
    """Keeps the last element of each key; puts out nothing.

    Without `latest_by` that is the batch's last one, by the order of the operator, and nothing
    is read. With it an element takes the place of the stored one unless it is smaller: of equal
    ones the later batch's stays, and within a batch the last one. What is stored is read once
    for each key. A null element of a stream that is not of rows removes what is stored.
    """
    value = ColumnState(sink.descriptor)
    apart = None if sink.order_descriptor is None else ColumnState(sink.order_descriptor)
    states = [value] if apart is None else [value, apart]
    owned = TaskStates(spec, task, access, states)
    owned.begin()
    newest = _Newest(sink, spec, owned)
    for batch in gathered(batches, spec.settings.chunk_rows):
        newest.add(owned.start_chunk(batch), batch)
    slots, rows = newest.chosen()
    if rows is not None and sink.latest_by:
        stored = value if apart is None else apart
        owned.fetch(stored, range(len(owned.keys)))
        positions = (
            range(len(sink.latest_by))
            if apart is not None
            else [spec.value_columns.index(key.column) for key in sink.latest_by]
        )
        stored_slots, columns = stored.fetched_fields(positions)
        if apart is None:
            columns = [
                key.within(column) for key, column in zip(sink.latest_by, columns, strict=True)
            ]
        kept = _not_older(sink.latest_by, (stored_slots, columns), (slots, newest.order_of(rows)))
        slots, rows = slots[kept], rows.take(pa.array(kept))
        if apart is not None:
            apart.put(newest.order_of(rows), slots)
    if rows is not None:
        value.put(newest.values_of(rows), slots)
    owned.prepare(owned.changes())
    yield from ()


@dataclass
class _Newest:
    """The last row of each key: of each chunk, then of the batch."""

    sink: LatestValueSink
    spec: OperatorSpec
    owned: TaskStates
    _slots: list[Slots] = field(default_factory=list)
    _rows: list[pa.Table] = field(default_factory=list)

    def __post_init__(self) -> None:
        sink, spec = self.sink, self.spec
        info = sink.descriptor.value_type
        assert info is not None
        self._types = [field.type for field in info.fields] if info.kind == Kind.ROW else [info]
        if len(self._types) != len(spec.value_columns):
            raise InvalidRequestError(
                f"{self.owned.where}: state {sink.descriptor.name!r} is {info}, the elements have "
                f"the columns {', '.join(spec.value_columns)}: declare a ROW with a field for "
                "each, or select fewer columns"
            )
        self._order = (*sink.latest_by, *spec.order)
        columns = [*spec.value_columns, *(key.column for key in self._order)]
        if spec.split_column:
            columns.append(spec.split_column)
        self._columns = list(dict.fromkeys(columns))

    def add(self, slots: Slots, batch: pa.RecordBatch) -> None:
        """Take the rows of a chunk."""
        distinct, rows = self._last_rows(slots, batch)
        self._slots.append(distinct)
        self._rows.append(pa.Table.from_batches([batch]).select(self._columns).take(pa.array(rows)))

    def chosen(self) -> tuple[Slots, pa.Table | None]:
        """The slots of the batch and the row of each; no table: no rows."""
        if not self._rows:
            return np.empty(0, dtype=np.int64), None
        slots = np.concatenate(self._slots)
        table = pa.concat_tables(self._rows).combine_chunks()
        distinct, rows = self._last_rows(slots, table)
        return distinct, table.take(pa.array(rows))

    def values_of(self, rows: pa.Table) -> list[pa.Array]:
        """The columns of the state."""
        state = self.sink.descriptor.name
        return [
            cast_column(
                rows.column(name).combine_chunks(),
                of,
                f"{self.owned.where}: state {state!r}, column {name!r}",
            )
            for name, of in zip(self.spec.value_columns, self._types, strict=True)
        ]

    def order_of(self, rows: pa.Table) -> list[pa.Array]:
        """The columns of `latest_by`."""
        return [
            cast_column(
                key.of(rows).combine_chunks(),
                key.type,
                f"{self.owned.where}: latest_by {key.name!r}",
            )
            for key in self.sink.latest_by
        ]

    def _last_rows(self, slots: Slots, rows: pa.RecordBatch | pa.Table) -> tuple[Slots, Slots]:
        keys = [(key, key.of(rows)) for key in self._order]
        return last_rows(slots, order_codes(keys) + split_code(rows, self.spec.split_column))


def _not_older(
    latest_by: Sequence[OrderColumn],
    stored: tuple[Slots, list[pa.Array]],
    found: tuple[Slots, list[pa.Array]],
) -> Slots:
    """The numbers of the rows found that are not before the row stored for their slot."""
    slots = np.concatenate([stored[0], found[0]])
    keys = [
        (key, pa.chunked_array([before, now]))
        for key, before, now in zip(latest_by, stored[1], found[1], strict=True)
    ]
    _, rows = last_rows(slots, order_codes(keys))
    first = len(stored[0])
    return rows[rows >= first] - first
