"""Execution of a window operator row by row."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from queryable_state.streaming.descriptors import ListStateDescriptor
from queryable_state.streaming.functions import UserFunctionError
from queryable_state.streaming.runtime.columns.event_time import CurrentTime, timestamps
from queryable_state.streaming.runtime.dropped_rows import log_dropped
from queryable_state.streaming.runtime.operators.function_run import (
    RowRun,
    element_reader,
    outputs_of,
)
from queryable_state.streaming.runtime.operators.operator_run import MAIN
from queryable_state.streaming.runtime.operators.outputs import Outputs
from queryable_state.streaming.runtime.operators.side_outputs import SideOutputs
from queryable_state.streaming.runtime.states.task_states import TaskStates
from queryable_state.streaming.runtime.timers.task_timers import TaskTimers
from queryable_state.streaming.runtime.user_code import at_place, described, shown
from queryable_state.streaming.runtime.windows.contexts import (
    AssignerContext,
    DeclaredStore,
    FunctionContext,
    TaskTriggerContext,
)
from queryable_state.streaming.runtime.windows.cursor import WindowCursor
from queryable_state.streaming.runtime.windows.window_logic import WindowLogic
from queryable_state.streaming.runtime.windows.window_states import WindowStates
from queryable_state.streaming.stateless.output_tag import OutputTag
from queryable_state.streaming.windows.window_functions import (
    AllWindowFunction,
    ProcessAllWindowFunction,
    ProcessWindowFunction,
    WindowFunction,
)
from queryable_state.wire.errors import InvalidRequestError, QueryableStateError
from queryable_state.wire.event_time import NO_TIMESTAMP

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import pyarrow as pa

    from queryable_state.streaming.runtime.operators.operator_run import Output
    from queryable_state.streaming.runtime.operators.spec import OperatorSpec
    from queryable_state.streaming.runtime.states.access import StateAccess
    from queryable_state.streaming.runtime.states.cached_state import CachedState
    from queryable_state.streaming.runtime.states.state_spec import TaskIdentity
    from queryable_state.streaming.runtime.windows.window_operator import WindowOperator


_PIECE_ROWS: Final = 1024
"""Rows or timers between two checks for full output batches."""


class WindowRun(RowRun):
    """A window operator in one task: due timers fire, then the elements are added."""

    def __init__(
        self, operator: WindowOperator, spec: OperatorSpec, task: TaskIdentity, access: StateAccess
    ) -> None:
        super().__init__(spec, task, access)
        self._operator = operator
        self._read = element_reader(spec.input)
        self._time = CurrentTime()
        self._outputs = Outputs(
            spec.output_type, spec.settings.output_rows, self.where, timed=spec.emits_event_time
        )
        self._sides = SideOutputs(spec, self.where)
        self._extend = self._outputs.extender(self._time)
        self._late = (
            None
            if operator.late_tag is None
            else self._sides.receivers(self._time).get(operator.late_tag.tag_id)
        )
        self._dropped = 0
        """Late elements, if the operator has no side output for them."""

    def open(self) -> None:
        """Opens the functions, which declare the states."""
        states = self._open()
        self._timers = TaskTimers(self._states.timers)
        self._owned = TaskStates(self.spec, self._task, self._access, states, timers=self._timers)

    def _open(self) -> Sequence[CachedState]:
        self._states = WindowStates(self._operator, self._context, self._functions)
        return self._states.all

    def begin(self) -> None:
        super().begin()
        owned, states = self.owned, self._states
        clocks = {
            "processing_time_ms": owned.batch_timestamp_ms,
            "watermark_ms": owned.watermark_ms,
        }
        self._cursor = WindowCursor(owned, pickled_keys=self.spec.pickled_keys)
        self._assigner_context = AssignerContext(owned.batch_timestamp_ms, states.keyed)
        context = FunctionContext(
            self._cursor,
            DeclaredStore(None if self._operator.is_merging else states.windowed),
            DeclaredStore(states.keyed),
            **clocks,
        )
        self._calls = WindowCalls(self._operator, self._cursor, context)
        self._logic = WindowLogic(
            self._operator,
            owned,
            states,
            self._cursor,
            TaskTriggerContext(self._cursor, self._timers, states.windowed, **clocks),
            emit=self._emit,
            end=self._calls.end,
        )

    def fire_timers(self) -> Iterator[Output]:
        owned, logic = self.owned, self._logic
        for page in self._timers.due():
            owned.start_page(page)
            self._enter()
            logic.start_page(page.timers)
            emitted = len(self._outputs.rows)
            for number, timer in enumerate(page.fire(), 1):
                owned.current_key.slot = owned.keys.slot_of(timer.wire_key)
                try:
                    logic.fire(timer)
                except QueryableStateError as error:
                    error.add_note(
                        f"{self.where}, key {self.shown_key}, at the timer "
                        f"{timer.timestamp_ms}{at_place(error)}"
                    )
                    raise
                except Exception as error:
                    raise UserFunctionError(
                        f"{self.where}: the window operator failed for key {self.shown_key} at "
                        f"the timer {timer.timestamp_ms}: {described(error)}"
                    ) from error
                if number % _PIECE_ROWS == 0:
                    yield from self._full(emitted)
                    emitted = len(self._outputs.rows)
            self._leave()
            yield from self._full(emitted)

    def process(self, number: int, batch: pa.RecordBatch) -> Iterator[Output]:
        rows = self.spec.inputs[number]
        slots = self.owned.start_chunk(batch, rows).tolist()
        elements = list(self._read(batch))
        times = self._times(batch, rows.event_time)
        self._enter()
        windows = self._assigned(slots, elements, times)
        panes = self._logic.start_chunk(slots, windows)
        current_key, add = self.owned.current_key, self._logic.add
        for start in range(0, len(slots), _PIECE_ROWS):
            emitted = len(self._outputs.rows)
            for index in range(start, min(start + _PIECE_ROWS, len(slots))):
                current_key.slot = slots[index]
                element, time = elements[index], times[index]
                try:
                    is_taken = add(element, NO_TIMESTAMP if time is None else time, panes[index])
                except QueryableStateError as error:
                    self._name_element(error, element)
                    raise
                except Exception as error:
                    raise self._user_error(error, "the window operator", element) from error
                if is_taken:
                    continue
                if self._late is not None:
                    self._time.ms = time
                    self._late(element)
                elif self._operator.late_tag is None:
                    self._dropped += 1
            yield from self._full(emitted)
        self._leave()

    def finish(self) -> Iterator[Output]:
        log_dropped(self._dropped, self.spec.uid, self.where)
        for rows in self._outputs.all_batches():
            yield MAIN, rows
        yield from self._sides.batches(only_full=False)

    def encode(self) -> None:
        self._enter()
        self._logic.persist()
        self._leave()
        super().encode()

    def _assigned(
        self, slots: Sequence[int], elements: Sequence[Any], times: Sequence[int | None]
    ) -> list[Any]:
        """The windows of each element."""
        assigner, context = self._operator.assigner, self._assigner_context
        needs_time, current_key = assigner.is_event_time(), self.owned.current_key
        windows = []
        for slot, element, time in zip(slots, elements, times, strict=True):
            current_key.slot = slot
            if time is None and needs_time:
                raise InvalidRequestError(
                    f"{self.where}, key {self.shown_key}: the element {shown(element)} has no "
                    "timestamp, which windows of event time need: its event-time column is null. "
                    "Filter such elements, or give them a timestamp"
                )
            try:
                assigned = assigner.assign_windows(
                    element, NO_TIMESTAMP if time is None else time, context
                )
            except QueryableStateError as error:
                self._name_element(error, element)
                raise
            except Exception as error:
                raise self._user_error(error, "assign_windows", element) from error
            windows.append(assigned)
        return windows

    def _times(self, batch: pa.RecordBatch, event_time: str) -> list[int | None]:
        if not event_time:
            return [None] * batch.num_rows
        return timestamps(batch.column(event_time)).to_pylist()  # type: ignore[no-any-return]

    def _emit(self, contents: Any) -> None:
        """Emits the outputs for the window of the cursor, with its last timestamp."""
        if self._states.fired is not None:
            self._states.fired.update(self._cursor.window, contents)
        if self.spec.output_type is None:
            return
        self._time.ms = self._cursor.window.max_timestamp()
        result = self._calls.outputs(contents)
        if result is not None:
            self._extend(outputs_of(result))

    def _full(self, emitted: int) -> Iterator[Output]:
        """Full batches of the outputs; those from index `emitted` on are new."""
        if OutputTag.exists:
            self._sides.take(self._outputs, emitted)
        yield from self._sides.batches(only_full=True)
        for rows in self._outputs.full_batches():
            yield MAIN, rows

    def _enter(self) -> None:
        for state in self._states.all:
            state.enter()

    def _leave(self) -> None:
        for state in self._states.all:
            state.leave()


class WindowCalls:
    """The function of a window operator, whatever its class."""

    def __init__(
        self, operator: WindowOperator, cursor: WindowCursor, context: FunctionContext
    ) -> None:
        self._function = operator.function
        self._has_list = isinstance(operator.contents, ListStateDescriptor)
        self._cursor = cursor
        self._context = context

    def outputs(self, contents: Any) -> Iterable[Any] | None:
        """The outputs for the contents of the window: its elements, or what they make."""
        elements = contents if self._has_list else [contents]
        match self._function:
            case None:
                return elements
            case WindowFunction() as function:
                return function.apply(self._cursor.key, self._cursor.window, elements)
            case AllWindowFunction() as function:
                return function.apply(self._cursor.window, elements)
            case ProcessWindowFunction() as function:
                return function.process(self._cursor.key, self._context, elements)
            case ProcessAllWindowFunction() as function:
                return function.process(self._context, elements)

    def end(self) -> None:
        """Has the function clear its state of the window."""
        if isinstance(self._function, ProcessWindowFunction | ProcessAllWindowFunction):
            self._function.clear(self._context)
