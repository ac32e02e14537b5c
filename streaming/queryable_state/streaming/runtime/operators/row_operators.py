"""Row-by-row execution of process and reduce functions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from queryable_state.streaming.runtime.columns.event_time import timestamps
from queryable_state.streaming.runtime.operators.context import ElementContext, new_state
from queryable_state.streaming.runtime.operators.function_run import RowRun, element_reader
from queryable_state.streaming.runtime.operators.operator_run import MAIN
from queryable_state.streaming.runtime.operators.outputs import Outputs
from queryable_state.streaming.runtime.states.value_states import CachedReducing
from queryable_state.streaming.runtime.timers.timed_run import TimedRun
from queryable_state.streaming.runtime.timers.timer_context import KeyedTimerContext
from queryable_state.wire.errors import QueryableStateError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    import pyarrow as pa

    from queryable_state.streaming.functions import Function, ReducingStateDescriptor
    from queryable_state.streaming.runtime.operators.operator_run import Output
    from queryable_state.streaming.runtime.operators.spec import OperatorSpec
    from queryable_state.streaming.runtime.states.access import StateAccess
    from queryable_state.streaming.runtime.states.cached_state import CachedState
    from queryable_state.streaming.runtime.states.state_spec import TaskIdentity


class ProcessRun(TimedRun):
    """Runs a process function over the elements: `hooks` has its method for each input."""

    def __init__(
        self,
        function: Function,
        hooks: Sequence[Callable[[Any, Any], Iterable[Any] | None]],
        spec: OperatorSpec,
        task: TaskIdentity,
        access: StateAccess,
    ) -> None:
        super().__init__(function, spec, task, access)
        self._hooks = hooks
        self._read = [element_reader(rows) for rows in spec.inputs]

    def begin(self) -> None:
        super().begin()
        self._element_context = ElementContext(
            self.owned.current_key,
            self.owned.keys,
            self._timer_service(),
            self._time,
            pickled_keys=self.spec.pickled_keys,
        )

    def _timer_context(self) -> KeyedTimerContext:
        return KeyedTimerContext(
            self._current_timer,
            self.owned.current_key,
            self.owned.keys,
            self._element_context.timer_service(),
            self._time,
            pickled_keys=self.spec.pickled_keys,
        )

    def process(self, number: int, batch: pa.RecordBatch) -> Iterator[Output]:
        rows = self.spec.inputs[number]
        slots = self.owned.start_chunk(batch, rows).tolist()
        elements = self._time.over(self._read[number](batch), batch, rows.event_time)
        yield from self._processed(self._hooks[number], self._element_context, slots, elements)


class ReduceRun(RowRun):
    """Reduces the elements of each key; `emit` emits the reduced value for each element, with the
    element's timestamp."""

    def __init__(
        self,
        descriptor: ReducingStateDescriptor,
        spec: OperatorSpec,
        task: TaskIdentity,
        access: StateAccess,
        *,
        emit: bool,
    ) -> None:
        super().__init__(spec, task, access)
        self._state = new_state(descriptor, CachedReducing)
        self._outputs = (
            Outputs(
                spec.output_type, spec.settings.output_rows, self.where, timed=spec.emits_event_time
            )
            if emit
            else None
        )
        self._read = element_reader(spec.input)

    def _open(self) -> Sequence[CachedState]:
        self._context.end_declarations()
        self._open_function(self._state.descriptor)
        return [self._state]

    def process(self, number: int, batch: pa.RecordBatch) -> Iterator[Output]:
        state, outputs, current_key = self._state, self._outputs, self.owned.current_key
        reduced, held, give = state.reduced, state.held, state.give
        slots = self.owned.start_chunk(batch, self.spec.inputs[number]).tolist()
        cached_values = state.load_chunk()
        state.enter()
        emitted = _drop if outputs is None else outputs.rows.append
        element = None
        try:
            for slot, element in zip(slots, self._read(batch), strict=True):
                current_key.slot = slot
                cached = cached_values[slot] = held(slot, reduced(cached_values[slot], element))
                emitted(give(cached))
        except QueryableStateError as error:
            self._name_element(error, element)
            raise
        except Exception as error:
            raise self._user_error(error, "the reduce function", element) from error
        state.dirty.update(slots)
        if outputs is not None:
            if outputs.times is not None:
                outputs.times.extend(self._times(number, batch))
            for rows in outputs.full_batches():
                yield MAIN, rows

    def _times(self, number: int, batch: pa.RecordBatch) -> list[int | None]:
        event_time = self.spec.inputs[number].event_time
        if not event_time:
            return [None] * batch.num_rows
        return timestamps(batch.column(event_time)).to_pylist()  # type: ignore[no-any-return]

    def finish(self) -> Iterator[Output]:
        if self._outputs is not None:
            for rows in self._outputs.all_batches():
                yield MAIN, rows


def _drop(_: Any) -> None:
    """Discards an output: a sink emits nothing."""
