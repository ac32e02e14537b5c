"""Operators that never make a Python object for a row: sum, min, max and the latest-value sink."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from queryable_state.streaming.runtime.accumulators import accumulator
from queryable_state.streaming.runtime.arrow_types import arrow_schema, to_arrow_value
from queryable_state.streaming.runtime.column_state import ColumnState
from queryable_state.streaming.runtime.gathering import gathered
from queryable_state.streaming.runtime.key_table import shown_key
from queryable_state.streaming.runtime.task_states import TaskStates
from queryable_state.streaming.runtime.value_columns import cast_column
from queryable_state.wire.errors import InvalidRequestError, SerializationError
from queryable_state.wire.types import Kind

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

    from queryable_state.streaming.descriptors import ValueStateDescriptor
    from queryable_state.streaming.runtime.access import StateAccess
    from queryable_state.streaming.runtime.key_table import Slots
    from queryable_state.streaming.runtime.operators import Aggregate, FieldAggregate
    from queryable_state.streaming.runtime.spec import OperatorSpec, TaskIdentity


def run_aggregate(
    aggregate: Aggregate,
    spec: OperatorSpec,
    task: TaskIdentity,
    access: StateAccess,
    batches: Iterator[pa.RecordBatch],
) -> Generator[pa.RecordBatch, None, None]:
    """Adds the rows to what is stored, in their order: one row out a key.

    What is stored comes first: the sum of floats depends on the order of additions, and is then
    the same wherever a batch was cut.
    """
    state = ColumnState(aggregate.descriptor)
    owned = TaskStates(spec, task, access, [state])
    owned.begin()

    def overflow_of(field: FieldAggregate) -> Callable[[int], Exception]:
        return lambda slot: SerializationError(
            f"{owned.where}: the {field.kind} of column {field.column!r} for key "
            f"{shown_key(owned.keys.keys[slot], spec.key_type)} is beyond the range of "
            f"{field.type}: cast the column to a wider type (bigint, decimal, double) before"
        )

    columns = [accumulator(field, overflow_of(field)) for field in aggregate.fields]
    for batch in gathered(batches, spec.settings.chunk_rows):
        known = len(owned.keys)
        slots = owned.start_chunk(batch)
        owned.fetch(state, range(known, len(owned.keys)))
        stored_slots, stored = state.fetched_columns()
        for sums, column in zip(columns, stored, strict=True):
            sums.grow(len(owned.keys))
            sums.add(stored_slots, column)
        for field, sums in zip(aggregate.fields, columns, strict=True):
            described = f"{owned.where}: column {field.column!r}"
            sums.add(slots, cast_column(batch.column(field.column), field.type, described))
    if len(owned.keys):
        results = [sums.column() for sums in columns]
        state.put(results)
        yield from _aggregated(spec, owned, results)
    owned.prepare(owned.changes())


def _aggregated(
    spec: OperatorSpec, owned: TaskStates, results: list[pa.Array]
) -> Generator[pa.RecordBatch, None, None]:
    """Key columns and aggregates of all keys, in batches."""
    fields = spec.output_fields
    count = len(spec.key_columns)
    if len(fields) != count + len(results):
        raise InvalidRequestError(
            f"{owned.where}: the output type has {len(fields)} columns; the aggregation puts out "
            f"{count} key columns and {len(results)} aggregates"
        )
    keys: list[Any] = [owned.keys.keys] if count == 1 else list(zip(*owned.keys.keys, strict=True))
    schema = arrow_schema(fields)
    arrays = []
    for position, values in enumerate(keys):
        convert = to_arrow_value(fields[position].type)
        if convert is not None:
            values = [convert(value) for value in values]
        arrays.append(pa.array(values, type=schema.field(position).type))
    for position, column in enumerate(results, start=count):
        described = f"{owned.where}: output column {fields[position].name!r}"
        arrays.append(cast_column(column, fields[position].type, described))
    table = pa.Table.from_arrays(arrays, schema=schema)
    yield from table.to_batches(max_chunksize=spec.settings.output_rows)


def run_latest(
    descriptor: ValueStateDescriptor,
    spec: OperatorSpec,
    task: TaskIdentity,
    access: StateAccess,
    batches: Iterator[pa.RecordBatch],
) -> Generator[pa.RecordBatch, None, None]:
    """Keeps the last element of each key; reads nothing, puts out nothing.

    A null element of a stream that is not of rows removes what is stored.
    """
    state = ColumnState(descriptor)
    owned = TaskStates(spec, task, access, [state])
    owned.begin()
    info = descriptor.value_type
    assert info is not None
    types = [field.type for field in info.fields] if info.kind == Kind.ROW else [info]
    names = spec.value_columns
    if len(types) != len(names):
        raise InvalidRequestError(
            f"{owned.where}: state {descriptor.name!r} is {info}, the elements have the columns "
            f"{', '.join(names)}: declare a ROW with a field for each, or select fewer columns"
        )
    kept_slots: list[Slots] = []
    kept: list[list[pa.Array]] = []
    for batch in gathered(batches, spec.settings.chunk_rows):
        slots = owned.start_chunk(batch)
        distinct, rows = _last_rows(slots)
        kept_slots.append(distinct)
        kept.append(
            [
                cast_column(
                    batch.column(name).take(pa.array(rows)),
                    of,
                    f"{owned.where}: state {descriptor.name!r}, column {name!r}",
                )
                for name, of in zip(names, types, strict=True)
            ]
        )
    if kept:
        slots, rows = _last_rows(np.concatenate(kept_slots))
        chosen = pa.array(rows)
        columns = [
            pa.chunked_array(list(parts)).take(chosen).combine_chunks()
            for parts in zip(*kept, strict=True)
        ]
        state.put(columns, slots)
    owned.prepare(owned.changes())
    yield from ()


def _last_rows(slots: Slots) -> tuple[Slots, Slots]:
    """The distinct slots, ascending, and the last row of each."""
    last = np.full(int(slots.max()) + 1, -1, dtype=np.int64)
    # Of assignments to one place the last one stays.
    last[slots] = np.arange(len(slots))
    distinct = np.flatnonzero(last >= 0)
    return distinct, last[distinct]
