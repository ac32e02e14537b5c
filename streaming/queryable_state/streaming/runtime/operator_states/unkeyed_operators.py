"""Execution of functions with operator state over a stream without keys."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from queryable_state.streaming.runtime.columns.event_time import timestamps
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
        self._element_context = ChainContext()
        self._step = StepRun(operator.step, self.where, self._element_context)
        self._read = element_reader(spec.input)
        self._receivers = self._sides.receivers()

    def process(self, number: int, batch: pa.RecordBatch) -> Iterator[Output]:
        rows = self.spec.inputs[number]
        self.owned.count_rows(batch, rows)
        elements = self._read(batch)
        if rows.event_time:
            elements = self._timed(elements, timestamps(batch.column(rows.event_time)))
        results = self._step.outputs(elements, self._receivers)
        while piece := list(islice(results, _PIECE_ROWS)):
            self._outputs.rows += piece
            for output in self._outputs.full_batches():
                yield MAIN, output
            yield from self._sides.batches(only_full=True)

    def _timed(self, elements: Iterator[Any], times: list[int | None]) -> Iterator[Any]:
        """The elements; the context has the timestamp of each while it is processed."""
        for self._element_context.timestamp_ms, element in zip(times, elements, strict=True):
            yield element
