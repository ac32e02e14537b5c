"""Harness that runs one keyed operator over batches of rows, as Spark's tasks would."""

from __future__ import annotations

import copy
import itertools
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa
from xxhash import xxh64_intdigest

from queryable_state.streaming.functions import KeyedProcessFunction
from queryable_state.streaming.graph.elements import Columns
from queryable_state.streaming.ordering import order_columns
from queryable_state.streaming.runtime.columns.arrow_types import arrow_type, to_python
from queryable_state.streaming.runtime.columns.row_check import row_check
from queryable_state.streaming.runtime.operators.operators import KeyedBatchProcess, KeyedProcess
from queryable_state.streaming.runtime.operators.spec import VALUE_COLUMN, OperatorSpec
from queryable_state.streaming.runtime.stage import StageSpec, StageTask
from queryable_state.streaming.runtime.states.input_spec import InputSpec
from queryable_state.streaming.runtime.states.settings import RuntimeSettings
from queryable_state.streaming.runtime.states.state_spec import TaskIdentity
from queryable_state.streaming.testing.in_memory_state import InMemoryStateBackend
from queryable_state.streaming.vectorised.functions import KeyedBatchProcessFunction
from queryable_state.v1.registration_pb2 import StateKind, StateRegistration
from queryable_state.wire.errors import InvalidRequestError
from queryable_state.wire.keys.key_groups import KeyGroups, subtask_of
from queryable_state.wire.keys.store_keys import ACCUMULATOR_ELEMENT, RESULT_ELEMENT, VOID_NAMESPACE
from queryable_state.wire.operator_state import split_broadcast_element
from queryable_state.wire.rows import row_maker, row_values
from queryable_state.wire.schema.types import Field, Kind, TypeInfo, type_info
from queryable_state.wire.state_codecs import StateCodecs
from queryable_state.wire.values.value_codec import ValueCodec

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Sequence

    from queryable_state.streaming.ordering import OrderBy
    from queryable_state.streaming.runtime.operators.operators import Operator
    from queryable_state.streaming.runtime.states.access import StateAccess
    from queryable_state.v1.query_pb2 import Records

CHECK_COLUMN = "__check"

_SIGN = 1 << 63


class StateOwner(Protocol):
    """Backend of a harness's state: in memory or on state servers."""

    query_id: bytes
    run_id: bytes
    secret: str

    def access(self, spec: OperatorSpec, task: TaskIdentity) -> StateAccess:
        """State access of one task attempt."""
        ...

    def commit(self, batch_id: int) -> None:
        """Commits a batch on every subtask."""
        ...


class KeyedOperatorHarness:
    """A keyed operator and its state, run batch by batch on lists of rows.

    `process` runs a batch on every subtask and commits it. `run` and `commit` do these steps
    separately; a second `run` before `commit` replays the batch, as Spark may do. As in Spark each
    task has its own copy of the function. Elements are rows of all columns of `input_type`, or the
    bare values of `value_column`. The rows of a batch are processed in the given order, as if from
    one input partition, or by `order_by`.

        harness = KeyedOperatorHarness(
            CountPerSensor(), "sensor STRING, degrees DOUBLE", key_by="sensor",
            output_type="sensor STRING, readings BIGINT",
        )
        outputs = harness.process([("sensor_1", 20.5), ("sensor_2", 21.0)])
        assert harness.state("count", "sensor_1") == 1
    """

    def __init__(
        self,
        operator: Operator | KeyedProcessFunction | KeyedBatchProcessFunction,
        input_type: object,
        *,
        key_by: str | Sequence[str],
        order_by: OrderBy | None = None,
        value_column: str | None = None,
        output_type: object = None,
        parallelism: int = 2,
        max_parallelism: int = 128,
        uid: str = "operator",
        name: str = "operator",
        chunk_rows: int = 10_000,
        settings: RuntimeSettings | None = None,
        owner: StateOwner | None = None,
    ) -> None:
        self.backend: StateOwner = InMemoryStateBackend() if owner is None else owner
        self.batch_id = 0
        """The open batch, which the next `run` runs."""
        self._chunk_rows = chunk_rows
        self._attempts = itertools.count(1)
        if isinstance(operator, KeyedProcessFunction):
            operator = KeyedProcess(operator)
        elif isinstance(operator, KeyedBatchProcessFunction):
            operator = KeyedBatchProcess(operator)
        value_type = type_info(input_type)
        fields = value_type.fields
        if value_type.kind != Kind.ROW:
            fields = (Field(VALUE_COLUMN, value_type),)
        self._input_fields = fields
        self._rows_are_bare = value_type.kind != Kind.ROW
        key_columns = (key_by,) if isinstance(key_by, str) else tuple(key_by)
        self.spec = OperatorSpec(
            uid=uid,
            name=name,
            depth=0,
            parallelism=parallelism,
            max_parallelism=max_parallelism,
            inputs=(
                InputSpec(
                    key_columns=key_columns,
                    value_columns=tuple(f.name for f in fields if value_column in (None, f.name)),
                    value_type=next((f.type for f in fields if f.name == value_column), value_type),
                    check_column=CHECK_COLUMN,
                    order=order_columns(
                        order_by, Columns({f.name: f.type for f in fields}), "order_by"
                    ),
                ),
            ),
            key_type=_key_type(key_columns, fields),
            operator=operator,
            output_type=None if output_type is None else type_info(output_type),
            secret=self.backend.secret,
            settings=replace(settings or RuntimeSettings(), chunk_rows=chunk_rows),
        )
        self._key_groups = KeyGroups(self.spec.key_type, max_parallelism)

    def process(self, rows: Iterable[Any]) -> list[Any]:
        """Runs a batch once on every subtask and commits it; returns the operator's outputs."""
        outputs = self.run(rows)
        self.commit()
        return outputs

    def run(self, rows: Iterable[Any], *, subtasks: Iterable[int] | None = None) -> list[Any]:
        """Runs the open batch on these subtasks (None: all), as new task attempts."""
        partitions = self.partitions(rows)
        outputs: list[Any] = []
        for subtask in range(self.spec.parallelism) if subtasks is None else subtasks:
            for batch in self.attempt(subtask, partitions[subtask]):
                outputs += self._output_rows(batch)
        return outputs

    def attempt(
        self, subtask: int, batches: Iterable[pa.RecordBatch]
    ) -> Generator[pa.RecordBatch, None, None]:
        """Runs one task attempt of one subtask of the open batch."""
        spec = replace(self.spec, operator=copy.deepcopy(self.spec.operator))
        task = TaskIdentity(
            query_id=self.backend.query_id,
            run_id=self.backend.run_id,
            batch_id=self.batch_id,
            subtask=subtask,
            task_attempt=next(self._attempts),
        )
        return StageTask(self._stage(spec)).run(
            batches, task, lambda each: self.backend.access(each, task)
        )

    def _stage(self, spec: OperatorSpec) -> StageSpec:
        return StageSpec(operators=(spec,))

    def commit(self) -> None:
        """Commits the open batch and opens the next one."""
        self.backend.commit(self.batch_id)
        self.batch_id += 1

    def state(self, state_name: str, key: Any) -> Any:
        """The committed state of a key: a list for a list state, a dict for a map state; None if
        there is none."""
        if not isinstance(self.backend, InMemoryStateBackend):
            raise InvalidRequestError(
                "state() reads only an InMemoryStateBackend: use a client for a local cluster"
            )
        registration = self.backend.registration(self.spec.uid, state_name)
        wire_key = self._key_groups.wire_key(key)
        subtask = self._subtask(int.from_bytes(wire_key[:2], "big"))
        records = self.backend.records(
            self.spec.uid, subtask, state_name, wire_key + VOID_NAMESPACE
        )
        return _whole_value(registration, records)

    def operator_state(self, state_name: str, subtask: int) -> Any:
        """The committed operator state of a subtask: a list, or a dict of a broadcast state."""
        if not isinstance(self.backend, InMemoryStateBackend):
            raise InvalidRequestError(
                "operator_state() reads only an InMemoryStateBackend: use a client for a local "
                "cluster"
            )
        registration = self.backend.registration(self.spec.uid, state_name)
        codecs = StateCodecs(registration, pickle_values=True, unpickle=True)
        elements = self.backend.operator_state(self.spec.uid, subtask, state_name)
        if registration.kind != StateKind.BROADCAST:
            return codecs.decode_records((), elements)
        entries = list(map(split_broadcast_element, elements))
        return codecs.decode_records([key for key, _ in entries], [value for _, value in entries])

    def partitions(self, rows: Iterable[Any]) -> list[list[pa.RecordBatch]]:
        """The batches that Spark would pass to each subtask."""
        rows = list(rows)
        names = [field.name for field in self._input_fields]
        if self._rows_are_bare:
            rows = [(row,) for row in rows]
        values_of = row_values(
            TypeInfo(Kind.ROW, fields=self._input_fields), "row", InvalidRequestError
        )
        positions = [names.index(column) for column in self.spec.input.key_columns]
        by_subtask: list[list[tuple[Any, ...]]] = [[] for _ in range(self.spec.parallelism)]
        for row in rows:
            values = tuple(values_of(row))
            key = [values[position] for position in positions]
            # As in Spark a null does not change the hash; the operator refuses a null key.
            group = 0 if None in key else self._key_groups.of(key[0] if len(key) == 1 else key)
            row_hash = xxh64_intdigest(repr(values).encode()) - _SIGN
            by_subtask[self._subtask(group)].append((*values, row_check(row_hash, group)))
        schema = pa.schema(
            [(field.name, arrow_type(field.type)) for field in self._input_fields]
            + [(CHECK_COLUMN, pa.int64())]
        )
        return [
            [
                _batch(part[start : start + self._chunk_rows], schema)
                for start in range(0, len(part), self._chunk_rows)
            ]
            for part in by_subtask
        ]

    def _subtask(self, key_group: int) -> int:
        return subtask_of(key_group, self.spec.parallelism, self.spec.max_parallelism)

    def _output_rows(self, batch: pa.RecordBatch) -> list[Any]:
        output = self.spec.output_type
        if output is None:
            return []
        columns = [
            to_python(column, field.type)
            for column, field in zip(batch.columns, self.spec.output_fields, strict=True)
        ]
        if output.kind != Kind.ROW:
            return columns[0]
        make = row_maker(output)
        return [make(values) for values in zip(*columns, strict=True)]


def _key_type(key_columns: tuple[str, ...], fields: Sequence[Field]) -> TypeInfo:
    by_name = {field.name: field for field in fields}
    missing = [column for column in key_columns if column not in by_name]
    if missing or not key_columns:
        raise InvalidRequestError(
            f"key_by {missing or key_columns}: the columns are {', '.join(by_name)}"
        )
    if len(key_columns) == 1:
        return by_name[key_columns[0]].type
    return TypeInfo(Kind.ROW, fields=tuple(by_name[column] for column in key_columns))


def _whole_value(registration: StateRegistration, records: Records) -> Any:
    """Decodes the records of a key; an aggregate without a result is its accumulator."""
    found = dict(zip(records.elements, records.values, strict=True))
    if registration.kind == StateKind.AGGREGATING and not registration.value_types:
        info = TypeInfo.from_proto(registration.accumulator_types[-1].type)
        data = found.get(ACCUMULATOR_ELEMENT)
        return None if data is None else ValueCodec.of(info, unpickle=True).decode(data)
    codecs = StateCodecs(registration, pickle_values=True, unpickle=True)
    if registration.kind not in (StateKind.LIST, StateKind.MAP):
        data = found.get(RESULT_ELEMENT)
        return None if data is None else codecs.value.decode(data)
    return codecs.decode_records(records.elements, records.values)


def _batch(rows: Sequence[tuple[Any, ...]], schema: pa.Schema) -> pa.RecordBatch:
    columns = zip(*rows, strict=True)
    arrays = [
        pa.array(column, type=field.type) for column, field in zip(columns, schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
