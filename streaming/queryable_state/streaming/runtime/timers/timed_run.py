"""Timers of a function in one task: the due ones fire before the rows of the batch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from queryable_state.streaming.functions import UserFunctionError
from queryable_state.streaming.runtime.operators.function_run import (
    FunctionRun,
    ProcessRun,
    outputs_of,
)
from queryable_state.streaming.runtime.timers.task_timers import TaskTimers
from queryable_state.streaming.runtime.timers.timer_context import (
    DOMAINS,
    CurrentTimer,
    KeyedTimerContext,
)
from queryable_state.streaming.runtime.user_code import at_place, described
from queryable_state.streaming.stateless.timers import TimedFunction
from queryable_state.wire.errors import QueryableStateError
from queryable_state.wire.keys.timer_keys import Clock

if TYPE_CHECKING:
    from collections.abc import Iterator

    from queryable_state.streaming.functions import Function
    from queryable_state.streaming.runtime.operators.operator_run import Output
    from queryable_state.streaming.runtime.timers.due_page import DuePage

_PIECE_OUTPUTS: Final = 1024
"""Outputs between two checks for full output batches."""


class FunctionTimers:
    """The timers of a function that overrides `on_timer`: the part of its run that fires them."""

    def __init__(self, run: FunctionRun, function: object) -> None:
        assert isinstance(function, TimedFunction)
        self.timers = TaskTimers()
        """The timers, which are a state of the run."""
        self.current = CurrentTimer()
        """The timer that fires now."""
        self._run = run
        self._on_timer = function.on_timer

    def fire(self, context: object) -> Iterator[Output]:
        """Calls `on_timer` for each due timer, with this context, which follows `current`."""
        for page in self.timers.due():
            self._run.owned.start_page(page)
            yield from self._fired(page, context)

    def _fired(self, page: DuePage, context: object) -> Iterator[Output]:
        """Calls `on_timer` for each timer of a page, whose keys are the chunk."""
        run = self._run
        owned, time, outputs, states = run.owned, run.time, run.outputs, run.states
        extend, slot_of = outputs.extender(time), owned.keys.slot_of
        for state in states:
            state.enter()
        emitted = len(outputs.rows)
        for timer in page.fire():
            owned.current_key.slot = slot_of(timer.wire_key)
            self.current.timer = timer
            time.ms = timer.timestamp_ms if timer.clock == Clock.EVENT_TIME else None
            try:
                result = self._on_timer(timer.timestamp_ms, context)
                if result is not None:
                    extend(outputs_of(result))
            except QueryableStateError as error:
                error.add_note(f"{run.where}, {self._shown_timer}{at_place(error)}")
                raise
            except Exception as error:
                raise UserFunctionError(
                    f"{run.where}: on_timer failed for {self._shown_timer}: {described(error)}"
                ) from error
            if len(outputs.rows) - emitted >= _PIECE_OUTPUTS:
                yield from run.emitted(emitted)
                emitted = len(outputs.rows)
        yield from run.emitted(emitted)
        for state in states:
            state.leave()

    @property
    def _shown_timer(self) -> str:
        timer: Any = self.current.timer
        return (
            f"key {self._run.shown_key}, at the {DOMAINS[timer.clock].name} timer of {timer[1]} ms"
        )


class TimedProcessRun(ProcessRun):
    """Runs a process function with timers: the due ones fire before the elements of the batch."""

    def __init__(self, function: Function, *args: Any, **kwargs: Any) -> None:
        super().__init__(function, *args, **kwargs)
        self._firing = FunctionTimers(self, function)
        self._timers = self._firing.timers

    def fire_timers(self) -> Iterator[Output]:
        owned = self.owned
        context = KeyedTimerContext(
            self._firing.current,
            owned.current_key,
            owned.keys,
            self._element_context.timer_service,
            self.time,
            watermark_ms=owned.watermark_ms,
            pickled_keys=self.spec.pickled_keys,
        )
        return self._firing.fire(context)
