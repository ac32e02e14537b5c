"""Harness that runs an operator with one keyed input over batches of rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from queryable_state.streaming.functions import KeyedProcessFunction
from queryable_state.streaming.runtime.operators.operators import KeyedBatchProcess, KeyedProcess
from queryable_state.streaming.testing.harness_input import HarnessInput
from queryable_state.streaming.testing.operator_harness import OperatorHarness
from queryable_state.streaming.vectorised.functions import KeyedBatchProcessFunction
from queryable_state.wire.errors import InvalidRequestError, KeyTypeError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import pyarrow as pa

    from queryable_state.streaming.ordering import OrderBy
    from queryable_state.streaming.runtime.operators.operators import Operator


class KeyedOperatorHarness(OperatorHarness):
    """An operator with one keyed input and its state, run batch by batch on lists of rows.

    Elements are rows of all columns of `input_type`, or the bare values of `value_column`. With an
    `initial_state_type` the first batch may have initial state, which `handle_initial_state` gets
    before the elements; its key columns are those of `key_by`.

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
        event_time: str = "",
        initial_state_type: object = None,
        **options: Any,
    ) -> None:
        """`event_time` is the column with the timestamps of the elements. `options` are those of
        `OperatorHarness`."""
        if not key_by:
            raise InvalidRequestError("key_by names no column: a keyed operator needs a key")
        if isinstance(operator, KeyedProcessFunction):
            operator = KeyedProcess(operator)
        elif isinstance(operator, KeyedBatchProcessFunction):
            operator = KeyedBatchProcess(operator)
        elements = HarnessInput.of(
            input_type,
            what="input",
            key_by=key_by,
            order_by=order_by,
            value_column=value_column,
            event_time=event_time,
        )
        inputs = [elements]
        if initial_state_type is not None:
            initial = HarnessInput.of(
                initial_state_type, what="initial_state", key_by=key_by, is_initial=True
            )
            if initial.key_type != elements.key_type:
                raise KeyTypeError(
                    f"the initial state has keys of type {initial.key_type}, the input has "
                    f"{elements.key_type}"
                )
            inputs = [initial, elements.at(1)]
        super().__init__(operator, inputs, **options)

    def process(self, rows: Iterable[Any], *, initial_state: Iterable[Any] = ()) -> list[Any]:
        """Runs a batch once on every subtask and commits it; returns the operator's outputs."""
        outputs = self.run(rows, initial_state=initial_state)
        self.commit()
        return outputs

    def run(
        self,
        rows: Iterable[Any],
        *,
        subtasks: Iterable[int] | None = None,
        initial_state: Iterable[Any] = (),
    ) -> list[Any]:
        """Runs the open batch on these subtasks (None: all), as new task attempts."""
        if len(self._inputs) == 1:
            if initial_state:
                raise InvalidRequestError("initial_state needs initial_state_type in the harness")
            return self._run([rows], subtasks)
        if initial_state and self.batch_id:
            raise InvalidRequestError(
                f"batch {self.batch_id} has no initial state: only the first batch reads it"
            )
        return self._run([initial_state, rows], subtasks)

    def partitions(self, rows: Iterable[Any]) -> list[list[pa.RecordBatch]]:
        """The batches of elements that Spark would pass to each subtask."""
        return self._parts(len(self._inputs) - 1, rows)
