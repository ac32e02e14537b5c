"""Columnar execution of the built-in aggregations sum, min and max."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from queryable_state.streaming.runtime.columns.arrow_types import arrow_schema, to_arrow_value
from queryable_state.streaming.runtime.columns.batch_coalescing import gathered
from queryable_state.streaming.runtime.columns.value_columns import cast_column
from queryable_state.streaming.runtime.operators.accumulators import accumulator
from queryable_state.streaming.runtime.states.column_state import ColumnState
from queryable_state.streaming.runtime.states.key_table import shown_key
from queryable_state.streaming.runtime.states.task_states import TaskStates
from queryable_state.wire.errors import InvalidRequestError, SerializationError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

    from queryable_state.streaming.runtime.operators.operators import Aggregate, FieldAggregate
    from queryable_state.streaming.runtime.operators.spec import OperatorSpec
    from queryable_state.streaming.runtime.states.access import StateAccess
    from queryable_state.streaming.runtime.states.state_spec import TaskIdentity


def run_aggregate(
    aggregate: Aggregate,
    spec: OperatorSpec,
    task: TaskIdentity,
    access: StateAccess,
    batches: Iterator[pa.RecordBatch],
) -> Generator[pa.RecordBatch, None, None]:
    """Adds the rows to the stored aggregates, in their order; emits one row per key.

    The stored aggregate is added first. The sum of floats depends on the order of additions; this
    order makes it independent of the batch boundaries.
    """
    state = ColumnState(aggregate.descriptor)
    owned = TaskStates(spec, task, access, [state])
    owned.begin()

    def overflow_of(field: FieldAggregate) -> Callable[[int], Exception]:
        return lambda slot: SerializationError(
            f"{owned.where}: the {field.kind} of column {field.column!r} for key "
            f"{shown_key(owned.keys.keys[slot], spec.key_type)} overflows {field.type}: cast the "
            "column to a wider type (bigint, decimal, double) before"
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
    """Batches of the key columns and aggregates of all keys."""
    fields = spec.output_fields
    count = len(spec.key_columns)
    if len(fields) != count + len(results):
        raise InvalidRequestError(
            f"{owned.where}: the output type has {len(fields)} columns, but the aggregation emits "
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
