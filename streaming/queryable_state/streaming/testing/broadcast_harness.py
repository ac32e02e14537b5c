"""Harness that runs an operator with a broadcast input over batches of rows."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from xxhash import xxh64_intdigest

from queryable_state.streaming.operator_state.broadcast_functions import (
    BroadcastProcessFunction,
)
from queryable_state.streaming.runtime.columns.arrow_types import arrow_type
from queryable_state.streaming.runtime.columns.row_check import row_check
from queryable_state.streaming.runtime.columns.tagged_rows import TaggedRows
from queryable_state.streaming.runtime.operators.operators import (
    BroadcastProcess,
    KeyedBroadcastProcess,
)
from queryable_state.streaming.runtime.operators.spec import VALUE_COLUMN
from queryable_state.streaming.runtime.stage import StageSpec
from queryable_state.streaming.runtime.states.input_spec import InputSpec
from queryable_state.streaming.testing.operator_harness import CHECK_COLUMN, KeyedOperatorHarness
from queryable_state.wire.schema.types import Field, Kind, TypeInfo, type_info

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from queryable_state.streaming.descriptors import MapStateDescriptor
    from queryable_state.streaming.operator_state.broadcast_functions import (
        KeyedBroadcastProcessFunction,
    )
    from queryable_state.streaming.runtime.operators.spec import OperatorSpec

_SIGN = 1 << 63


class BroadcastOperatorHarness(KeyedOperatorHarness):
    """An operator with a broadcast input, run batch by batch on lists of rows.

    Every subtask reads all broadcast elements of a batch, before its other elements. The rows of a
    `BroadcastProcessFunction` are distributed by `key_by`, too, but it sees no keys. All else is as
    in `KeyedOperatorHarness`.

        harness = BroadcastOperatorHarness(
            Alerts(), [RULES], "sensor STRING, degrees DOUBLE", "rule STRING, limit DOUBLE",
            key_by="sensor", output_type="sensor STRING, rule STRING",
        )
        alerts = harness.process([("sensor_1", 30.0)], broadcast=[("hot", 25.0)])
    """

    def __init__(
        self,
        function: KeyedBroadcastProcessFunction | BroadcastProcessFunction,
        descriptors: Sequence[MapStateDescriptor],
        input_type: object,
        broadcast_type: object,
        **options: Any,
    ) -> None:
        """`options` are those of `KeyedOperatorHarness`."""
        operator: Any = KeyedBroadcastProcess
        if isinstance(function, BroadcastProcessFunction):
            operator = BroadcastProcess
        super().__init__(operator(function, tuple(descriptors)), input_type, **options)
        element = type_info(broadcast_type)
        fields = element.fields if element.kind == Kind.ROW else (Field(VALUE_COLUMN, element),)
        broadcast = InputSpec(
            key_columns=(),
            is_broadcast=True,
            value_columns=tuple(field.name for field in fields),
            value_type=element,
            check_column=CHECK_COLUMN,
            place=1,
        )
        self._broadcast_fields = fields
        self._broadcast_is_bare = element.kind != Kind.ROW
        self.spec = replace(self.spec, inputs=(self.spec.input, broadcast))
        check = Field(CHECK_COLUMN, TypeInfo(Kind.LONG))
        self._tagged = TaggedRows.of([(*self._input_fields, check), (*fields, check)])

    def process(self, rows: Iterable[Any], broadcast: Iterable[Any] = ()) -> list[Any]:
        """Runs a batch once on every subtask and commits it; returns the operator's outputs."""
        outputs = self.run(rows, broadcast=broadcast)
        self.commit()
        return outputs

    def run(
        self,
        rows: Iterable[Any],
        *,
        subtasks: Iterable[int] | None = None,
        broadcast: Iterable[Any] = (),
    ) -> list[Any]:
        """Runs the open batch on these subtasks (None: all), as new task attempts."""
        elements = self._tagged.tagged(1, self._broadcast_batch(list(broadcast)))
        partitions = self.partitions(rows)
        outputs: list[Any] = []
        for subtask in range(self.spec.parallelism) if subtasks is None else subtasks:
            own = (self._tagged.tagged(0, batch) for batch in partitions[subtask])
            # Spark may pass the rows of the inputs in any order.
            for batch in self.attempt(subtask, chain(own, [elements])):
                outputs += self._output_rows(batch)
        return outputs

    def _stage(self, spec: OperatorSpec) -> StageSpec:
        return StageSpec(operators=(spec,), inputs=self._tagged)

    def _broadcast_batch(self, rows: Sequence[Any]) -> pa.RecordBatch:
        every = [(row,) for row in rows] if self._broadcast_is_bare else list(map(tuple, rows))
        checks = [row_check(xxh64_intdigest(repr(row).encode()) - _SIGN, 0) for row in every]
        arrays = [
            pa.array([row[position] for row in every], type=arrow_type(field.type))
            for position, field in enumerate(self._broadcast_fields)
        ]
        names = [field.name for field in self._broadcast_fields]
        return pa.RecordBatch.from_arrays(
            [*arrays, pa.array(checks, type=pa.int64())], names=[*names, CHECK_COLUMN]
        )
