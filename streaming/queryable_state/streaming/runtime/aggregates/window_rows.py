"""Output rows of windowed aggregates."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from queryable_state.streaming.runtime.aggregates.key_columns import key_columns
from queryable_state.streaming.runtime.aggregates.windowed_aggregate import (
    WINDOW_FIELDS,
    ColumnFunction,
)
from queryable_state.streaming.runtime.columns.value_columns import cast_column
from queryable_state.streaming.runtime.operators.operator_run import MAIN
from queryable_state.streaming.runtime.states.key_table import distinct_rows
from queryable_state.wire.arrow.arrow_types import arrow_schema
from queryable_state.wire.errors import InvalidRequestError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from queryable_state.streaming.runtime.aggregates.time_windows import Millis
    from queryable_state.streaming.runtime.aggregates.windowed_aggregate import WindowedAggregate
    from queryable_state.streaming.runtime.operators.operator_run import Output
    from queryable_state.streaming.runtime.operators.spec import OperatorSpec
    from queryable_state.streaming.runtime.states.key_table import KeyTable, Slots


class WindowRows:
    """Builder of the rows of ended windows: key, start, end, aggregates.

    Their event time, if the operator emits it, is the last millisecond of the window.
    """

    def __init__(self, aggregate: WindowedAggregate, spec: OperatorSpec, where: str) -> None:
        """Raises InvalidRequestError if the operator's output type has other columns."""
        self._aggregate = aggregate
        self._fields = spec.output_fields
        self._schema = arrow_schema(self._fields)
        self._limit = spec.settings.output_rows
        self._where = where
        self._key_fields = self._fields[: len(spec.input.key_columns)]
        self._is_timed = spec.emits_event_time
        expected = len(self._key_fields) + len(aggregate.output_fields) + self._is_timed
        if len(self._fields) != expected:
            raise InvalidRequestError(
                f"{where}: the output type has {len(self._fields)} columns, but the aggregation "
                f"emits {expected}: {len(self._key_fields)} of the key, "
                f"{len(WINDOW_FIELDS)} of the window and {len(aggregate.columns)} aggregates"
            )

    def outputs(
        self,
        keys: KeyTable,
        key_slots: Slots,
        starts: Millis,
        ends: Millis,
        stored: Sequence[pa.Array],
    ) -> Iterator[Output]:
        """Batches of the rows of these keys and windows; `stored` are the columns of the state."""
        if not len(starts):
            return
        columns = [
            *self._keys(keys, key_slots),
            _timestamps(starts),
            _timestamps(ends),
            *self._aggregates(stored),
        ]
        if self._is_timed:
            columns.append(pa.array(ends - 1))
        arrays = [
            cast_column(column, field.type, f"{self._where}: output column {field.name!r}")
            for column, field in zip(columns, self._fields, strict=True)
        ]
        table = pa.Table.from_arrays(arrays, schema=self._schema)
        for batch in table.to_batches(max_chunksize=self._limit):
            yield MAIN, batch

    def _keys(self, keys: KeyTable, key_slots: Slots) -> list[pa.Array]:
        """The key columns; each distinct key is converted once."""
        codes, firsts = distinct_rows([pa.array(key_slots)])
        distinct = [keys.keys[slot] for slot in key_slots[firsts].tolist()]
        return [column.take(pa.array(codes)) for column in key_columns(distinct, self._key_fields)]

    def _aggregates(self, stored: Sequence[pa.Array]) -> Iterator[pa.Array]:
        left = iter(stored)
        for column in self._aggregate.columns:
            total = next(left)
            if column.function == ColumnFunction.AVG:
                count = next(left)
                # A sum of no values is null, and so is its quotient.
                total = pc.divide(total.cast(pa.float64()), count.cast(pa.float64()))
            yield total


def _timestamps(times: Millis) -> pa.Array:
    return pa.array(times * 1000).cast(pa.timestamp("us", tz="UTC"))
