"""Execution of functions that may have timers: they fire before the rows of the batch."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, Final

from queryable_state.streaming.functions import UserFunctionError
from queryable_state.streaming.runtime.operators.function_run import FunctionRun, outputs_of
from queryable_state.streaming.runtime.timers.task_timers import TaskTimers
from queryable_state.streaming.runtime.timers.timer_context import DOMAINS, CurrentTimer
from queryable_state.streaming.runtime.timers.timer_service import KeyedTimerService
from queryable_state.streaming.runtime.user_code import at_place, described
from queryable_state.streaming.stateless.timers import TimedFunction, has_timers
from queryable_state.wire.errors import QueryableStateError
from queryable_state.wire.keys.timer_keys import Clock

if TYPE_CHECKING:
    from collections.abc import Iterator

    from queryable_state.streaming.functions import Function
    from queryable_state.streaming.runtime.operators.operator_run import Output
    from queryable_state.streaming.runtime.operators.spec import OperatorSpec
    from queryable_state.streaming.runtime.states.access import StateAccess
    from queryable_state.streaming.runtime.states.state_spec import TaskIdentity
    from queryable_state.streaming.runtime.timers.due_page import DuePage

_PIECE_OUTPUTS: Final = 1024
"""Outputs between two checks for full output batches."""


class TimedRun(FunctionRun):
    """An operator with a function that has timers if it overrides `on_timer`."""

    def __init__(
        self,
        function: Function,
        spec: OperatorSpec,
        task: TaskIdentity,
        access: StateAccess,
        *,
        keyed: bool = True,
    ) -> None:
        """`keyed`: the function may have keyed states and timers."""
        super().__init__(function, spec, task, access, keyed=keyed)
        if keyed and has_timers(function):
            assert isinstance(function, TimedFunction)
            self._timers = TaskTimers()
            self._on_timer = function.on_timer
            self._current_timer = CurrentTimer()

    @abstractmethod
    def _timer_context(self) -> object:
        """The context of `on_timer`; it follows `_current_timer`."""

    def _timer_service(self) -> KeyedTimerService:
        """The timer service of the current key, after `begin`."""
        return KeyedTimerService(self.owned, self._timers)

    def fire_timers(self) -> Iterator[Output]:
        if self._timers is None:
            return
        context = self._timer_context()
        for page in self._timers.due():
            self.owned.start_page(page)
            yield from self._fired(page, context)

    def _fired(self, page: DuePage, context: object) -> Iterator[Output]:
        """Calls `on_timer` for each timer of a page, whose keys are the chunk."""
        owned, time, outputs = self.owned, self._time, self._outputs
        extend, slot_of = outputs.extender(time), owned.keys.slot_of
        states = self._context.states.values()
        for state in states:
            state.enter()
        emitted = len(outputs.rows)
        for timer in page.fire():
            owned.current_key.slot = slot_of(timer.wire_key)
            self._current_timer.timer = timer
            time.ms = timer.timestamp_ms if timer.clock == Clock.EVENT_TIME else None
            try:
                result = self._on_timer(timer.timestamp_ms, context)
                if result is not None:
                    extend(outputs_of(result))
            except QueryableStateError as error:
                error.add_note(f"{self.where}, {self._shown_timer}{at_place(error)}")
                raise
            except Exception as error:
                raise UserFunctionError(
                    f"{self.where}: on_timer failed for {self._shown_timer}: {described(error)}"
                ) from error
            if len(outputs.rows) - emitted >= _PIECE_OUTPUTS:
                yield from self._emitted(emitted)
                emitted = len(outputs.rows)
        yield from self._emitted(emitted)
        for state in states:
            state.leave()

    @property
    def _shown_timer(self) -> str:
        timer: Any = self._current_timer.timer
        return f"key {self._current_key}, at the {DOMAINS[timer.clock].name} timer of {timer[1]} ms"
