"""Harness that runs a function with operator state, without keys, over batches of rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from queryable_state.streaming.runtime.operators.operators import UnkeyedStep
from queryable_state.streaming.runtime.stateless.steps import Emits
from queryable_state.streaming.stateless.functions import (
    FilterFunction,
    FlatMapFunction,
    MapFunction,
    ProcessFunction,
)
from queryable_state.streaming.streams.steps import result_type, step_of
from queryable_state.streaming.testing.harness_input import HarnessInput
from queryable_state.streaming.testing.operator_harness import OperatorHarness
from queryable_state.wire.errors import InvalidRequestError

if TYPE_CHECKING:
    from collections.abc import Iterable

_KINDS: tuple[type, ...] = (MapFunction, FlatMapFunction, FilterFunction, ProcessFunction)


class UnkeyedOperatorHarness(OperatorHarness):
    """A function with operator state over elements without keys, run batch by batch on lists.

    The function is a `CheckpointedFunction`, `ListCheckpointed` or `CheckpointListener`. The rows
    are spread over the subtasks by their content.

        harness = UnkeyedOperatorHarness(CountHot(), READING, output_type="BIGINT", parallelism=1)
        assert harness.process([("s1", 99.0)]) == [1]
        assert harness.operator_state("hot", 0) == [1]
    """

    def __init__(
        self,
        function: MapFunction | FlatMapFunction | FilterFunction | ProcessFunction,
        input_type: object,
        *,
        event_time: str = "",
        output_type: object = None,
        **options: Any,
    ) -> None:
        """`event_time` is the column with the timestamps of the elements. Without an `output_type`
        that of the annotation counts, as in a job. `options` are those of `OperatorHarness`."""
        kind = next((each for each in type(function).__mro__ if each in _KINDS), None)
        if kind is None:
            raise InvalidRequestError(
                f"{function!r} is no {', '.join(each.__name__ for each in _KINDS[:-1])} or "
                f"{_KINDS[-1].__name__}: only these have operator state without keys"
            )
        step = step_of(function, kind)
        if not step.has_operator_state:
            raise InvalidRequestError(
                f"{type(function).__name__} has no operator state: it is no CheckpointedFunction, "
                "ListCheckpointed or CheckpointListener. Test it with ChainHarness"
            )
        elements = HarnessInput.of(input_type, what="input", event_time=event_time)
        output = (
            elements.spec.value_type
            if step.emits is Emits.ELEMENT
            else result_type(step, output_type, kind.__name__)
        )
        super().__init__(UnkeyedStep(step), [elements], output_type=output, **options)

    def process(self, rows: Iterable[Any]) -> list[Any]:
        """Runs a batch once on every subtask and commits it; returns the function's outputs."""
        outputs = self.run(rows)
        self.commit()
        return outputs

    def run(self, rows: Iterable[Any], *, subtasks: Iterable[int] | None = None) -> list[Any]:
        """Runs the open batch on these subtasks (None: all), as new task attempts."""
        return self._run([rows], subtasks)
