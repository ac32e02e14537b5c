"""Columnar execution of the built-in aggregations sum, min and max."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from queryable_state.streaming.runtime.aggregates.accumulators import accumulator, overflow_error
from queryable_state.streaming.runtime.aggregates.key_columns import key_columns
from queryable_state.streaming.runtime.columns.value_columns import cast_column
from queryable_state.streaming.runtime.operators.operator_run import MAIN, OperatorRun
from queryable_state.streaming.runtime.states.column_state import ColumnState
from queryable_state.streaming.runtime.states.key_table import shown_key
from queryable_state.wire.arrow.arrow_types import arrow_schema
from queryable_state.wire.errors import InvalidRequestError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from queryable_state.streaming.runtime.aggregates.aggregate import Aggregate, FieldAggregate
    from queryable_state.streaming.runtime.operators.operator_run import Output
    from queryable_state.streaming.runtime.operators.spec import OperatorSpec
    from queryable_state.streaming.runtime.states.access import StateAccess
    from queryable_state.streaming.runtime.states.state_spec import TaskIdentity


class AggregateRun(OperatorRun):
    """Adds the rows to the stored aggregates, in their order; emits one row per key.

    The stored aggregate is added first. The sum of floats depends on the order of additions; this
    order makes it independent of the batch boundaries.
    """

    def __init__(
        self, aggregate: Aggregate, spec: OperatorSpec, task: TaskIdentity, access: StateAccess
    ) -> None:
        super().__init__(spec, task, access)
        self._fields = aggregate.fields
        self._state = ColumnState(aggregate.descriptor)
        self._columns = [accumulator(field, self._overflow_of(field)) for field in aggregate.fields]

    def _open(self) -> Sequence[ColumnState]:
        return [self._state]

    def process(self, number: int, batch: pa.RecordBatch) -> Iterator[Output]:
        owned = self.owned
        known = len(owned.keys)
        slots = owned.start_chunk(batch, self.spec.inputs[number])
        owned.fetch(self._state, range(known, len(owned.keys)))
        stored_slots, stored = self._state.fetched_columns()
        for sums, column in zip(self._columns, stored, strict=True):
            sums.grow(len(owned.keys))
            sums.add(stored_slots, column)
        for field, sums in zip(self._fields, self._columns, strict=True):
            described = f"{self.where}: column {field.column!r}"
            sums.add(slots, cast_column(batch.column(field.column), field.type, described))
        return iter(())

    def finish(self) -> Iterator[Output]:
        if not len(self.owned.keys):
            return
        results = [sums.column() for sums in self._columns]
        self._state.put(results)
        if self.spec.output_type is not None:
            for batch in self._aggregated(results):
                yield MAIN, batch

    def _overflow_of(self, field: FieldAggregate) -> Callable[[int], Exception]:
        return lambda slot: overflow_error(
            f"{self.where}: the {field.kind} of column {field.column!r} for key "
            f"{shown_key(self.owned.keys.keys[slot], self.spec.key_type)}",
            field.type,
        )

    def _aggregated(self, results: list[pa.Array]) -> list[pa.RecordBatch]:
        """Batches of the key columns and aggregates of all keys."""
        fields, keys = self.spec.output_fields, self.owned.keys.keys
        count = len(self.spec.input.key_columns)
        if len(fields) != count + len(results):
            raise InvalidRequestError(
                f"{self.where}: the output type has {len(fields)} columns, but the aggregation "
                f"emits {count} key columns and {len(results)} aggregates"
            )
        schema = arrow_schema(fields)
        arrays = key_columns(keys, fields[:count])
        for position, column in enumerate(results, start=count):
            described = f"{self.where}: output column {fields[position].name!r}"
            arrays.append(cast_column(column, fields[position].type, described))
        table = pa.Table.from_arrays(arrays, schema=schema)
        made: list[pa.RecordBatch] = table.to_batches(max_chunksize=self.spec.settings.output_rows)
        return made
