"""Execution of functions with operator state over a stream without keys."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from queryable_state.streaming.runtime.operators.function_run import FunctionRun, element_reader
from queryable_state.streaming.runtime.operators.operator_run import MAIN
from queryable_state.streaming.runtime.stateless.element_context import ChainContext
from queryable_state.streaming.runtime.stateless.steps import StepRun

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from queryable_state.streaming.runtime.operators.operator_run import Output
    from queryable_state.streaming.runtime.operators.operators import UnkeyedStep
    from queryable_state.streaming.runtime.operators.spec import OperatorSpec
    from queryable_state.streaming.runtime.states.access import StateAccess
    from queryable_state.streaming.runtime.states.state_spec import TaskIdentity

_PIECE_ROWS: Final = 1024
"""Elements between two checks for full output batches; bounds the buffered outputs."""


class UnkeyedRun(FunctionRun):
    """Runs a step whose function has operator state.

    Key columns of its input, if there are any, only distribute the rows.
    """

    def __init__(
        self, operator: UnkeyedStep, spec: OperatorSpec, task: TaskIdentity, access: StateAccess
    ) -> None:
        super().__init__(operator.function, spec, task, access, keyed=False)
        self._step = StepRun(operator.step, self.where, ChainContext(self.time))
        self._read = element_reader(spec.input)
        self._receivers = self._sides.receivers(self.time)

    def process(self, number: int, batch: pa.RecordBatch) -> Iterator[Output]:
        rows = self.spec.inputs[number]
        self.owned.count_rows(batch, rows)
        elements = self.time.over(self._read(batch), batch, rows.event_time)
        results = self._step.outputs(elements, self._receivers)
        while self.outputs.take(results, _PIECE_ROWS, self.time):
            for output in self.outputs.full_batches():
                yield MAIN, output
        # Side outputs do not end a piece, so only the end of a chunk bounds them.
        yield from self._sides.batches(only_full=True)
