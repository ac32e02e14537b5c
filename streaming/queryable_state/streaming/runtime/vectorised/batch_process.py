"""Execution of batch functions, which process Arrow columns."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from queryable_state.streaming.functions import UserFunctionError
from queryable_state.streaming.runtime.columns.arrow_types import to_arrow_value
from queryable_state.streaming.runtime.columns.fitted_columns import fitted_column, fitted_fields
from queryable_state.streaming.runtime.columns.value_columns import cast_column
from queryable_state.streaming.runtime.operators.context import DeclaringContext
from queryable_state.streaming.runtime.operators.operator_run import MAIN, OperatorRun
from queryable_state.streaming.runtime.user_code import at_place, described
from queryable_state.streaming.runtime.vectorised.batch_context import (
    ChunkState,
    DeclaringBatchContext,
)
from queryable_state.streaming.vectorised.functions import BatchKeys
from queryable_state.wire.arrow.arrow_types import arrow_schema, arrow_type, field_names
from queryable_state.wire.errors import QueryableStateError, SerializationError
from queryable_state.wire.schema.types import Kind, TypeInfo

if TYPE_CHECKING:
    from collections.abc import Sequence

    from queryable_state.streaming.runtime.operators.operator_run import Output
    from queryable_state.streaming.runtime.operators.spec import OperatorSpec
    from queryable_state.streaming.runtime.states.access import StateAccess
    from queryable_state.streaming.runtime.states.cached_state import CachedState
    from queryable_state.streaming.runtime.states.input_spec import InputSpec
    from queryable_state.streaming.runtime.states.state_spec import TaskIdentity
    from queryable_state.streaming.stateless.metrics import TaskMetrics
    from queryable_state.streaming.vectorised.functions import KeyedBatchProcessFunction

_ARROW = (pa.Table, pa.RecordBatch, pa.Array, pa.ChunkedArray, np.ndarray)


class BatchProcessRun(OperatorRun):
    """Runs a batch function over the chunks. The function is open from `begin` to `encode`."""

    reads_in_order = True

    def __init__(
        self,
        function: KeyedBatchProcessFunction,
        spec: OperatorSpec,
        task: TaskIdentity,
        access: StateAccess,
    ) -> None:
        super().__init__(spec, task, access)
        self._function = function
        self._context = DeclaringBatchContext(
            DeclaringContext(
                name=spec.name,
                subtask=task.subtask,
                parallelism=spec.parallelism,
                max_parallelism=spec.max_parallelism,
            )
        )
        self._schema = arrow_schema(spec.output_fields)

    def _open(self) -> Sequence[CachedState]:
        self._functions.open(self._function, self._context)
        self._context.end_declarations()
        self._states = self._context.states
        return list(self._states.values())

    def _metrics(self) -> TaskMetrics | None:
        return self._context.metrics

    def begin(self) -> None:
        super().begin()
        owned = self.owned
        self._state = ChunkState(
            self._states, self.where, owned.batch_timestamp_ms, owned.watermark_ms
        )

    def process(self, number: int, batch: pa.RecordBatch) -> Iterator[Output]:
        rows = self.spec.inputs[number]
        slots = self.owned.start_chunk(batch, rows)
        table = self._table(batch, rows)
        keys = self._keys(slots)
        for state in self._states.values():
            state.enter()
        returned = self._function.process_batch
        try:
            for output in _each(returned(keys, table, self._state)):
                for part in self._batches(output):
                    yield MAIN, part
        except QueryableStateError as error:
            error.add_note(f"{self.where}, {_described(keys, table)}{at_place(error)}")
            raise
        except Exception as error:
            raise UserFunctionError(
                f"{self.where}: process_batch failed for {_described(keys, table)}: "
                f"{described(error)}"
            ) from error
        for state in self._states.values():
            state.leave()

    def finish(self) -> Iterator[Output]:
        return iter(())

    def _table(self, batch: pa.RecordBatch, rows: InputSpec) -> pa.Table:
        """The element columns in the Arrow types of their declared types."""
        info = rows.value_type
        is_row = info.kind == Kind.ROW
        names = field_names(info) if is_row else list(rows.value_columns)
        types = [field.type for field in info.fields] if is_row else [info]
        columns = []
        for column, name, of in zip(rows.value_columns, names, types, strict=True):
            found = batch.column(column)
            if pa.types.is_dictionary(found.type):
                found = found.dictionary_decode()
            columns.append(cast_column(found, of, f"{self.where}: input column {name!r}"))
        return pa.Table.from_arrays(columns, names=names)

    def _keys(self, row_slots: Any) -> BatchKeys:
        known = self.owned.keys
        chunk = np.array(known.chunk_slots, dtype=np.int64)
        positions = np.empty(len(known), dtype=np.int64)
        positions[chunk] = np.arange(len(chunk))
        keys = [known.keys[slot] for slot in known.chunk_slots]
        info = self.spec.key_type
        if len(self.spec.input.key_columns) == 1:
            values = _column(keys, info)
        else:
            columns = [
                _column(column, field.type)
                for column, field in zip(zip(*keys, strict=True), info.fields, strict=True)
            ]
            values = pa.StructArray.from_arrays(columns, fields=list(arrow_type(info)))
        return BatchKeys(values=values, indices=pa.array(positions[row_slots]))

    def _batches(self, output: Any) -> list[pa.RecordBatch]:
        """The batches of a returned table; UserFunctionError if it is not of the output type."""
        declared = self.spec.output_type
        assert declared is not None
        is_row = declared.kind == Kind.ROW
        try:
            if not isinstance(output, _ARROW):
                raise SerializationError(
                    f"a {type(output).__name__} is not a pyarrow Table or RecordBatch: convert it, "
                    "for example with pyarrow.table or pyarrow.Table.from_pandas"
                )
            if isinstance(output, pa.Table | pa.RecordBatch):
                whole = declared if is_row else TypeInfo(Kind.ROW, fields=self.spec.output_fields)
                columns = fitted_fields(output, whole)
            elif is_row:
                raise SerializationError("a column is not a table with the columns of a row")
            else:
                columns = [fitted_column(output, declared)]
        except (SerializationError, pa.ArrowException) as problem:
            raise UserFunctionError(
                f"{self.where}: process_batch returned what is not of the output type {declared}: "
                f"{problem}"
            ) from problem
        table = pa.Table.from_arrays(columns, schema=self._schema)
        batches: list[pa.RecordBatch] = table.to_batches(
            max_chunksize=self.spec.settings.output_rows
        )
        return batches


def _each(returned: Any) -> Iterator[Any]:
    """The outputs of one call."""
    if returned is None:
        return iter(())
    # A dict and a DataFrame are iterable, too: over their names of columns.
    if isinstance(returned, list | tuple | Iterator):
        return iter(returned)
    return iter([returned])


def _column(values: Sequence[Any], info: TypeInfo) -> pa.Array:
    convert = to_arrow_value(info)
    if convert is not None:
        values = [convert(value) for value in values]
    return pa.array(values, type=arrow_type(info))


def _described(keys: BatchKeys, table: pa.Table) -> str:
    return f"a chunk of {table.num_rows} rows of {len(keys)} keys"
