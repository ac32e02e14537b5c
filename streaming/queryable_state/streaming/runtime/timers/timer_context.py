"""Contexts of `on_timer`: one object for all timers of a task, which moves with them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from queryable_state.streaming.functions import OnTimerContext
from queryable_state.streaming.operator_state.broadcast_functions import (
    KeyedBroadcastOnTimerContext,
)
from queryable_state.streaming.runtime.operator_states.broadcast_contexts import (
    KeyedElementContext,
)
from queryable_state.streaming.runtime.operators.context import ElementContext
from queryable_state.streaming.stateless.timers import TimeDomain
from queryable_state.wire.keys.timer_keys import Clock

if TYPE_CHECKING:
    from queryable_state.streaming.runtime.timers.due_page import DueTimer

DOMAINS = {
    Clock.EVENT_TIME: TimeDomain.EVENT_TIME,
    Clock.PROCESSING_TIME: TimeDomain.PROCESSING_TIME,
}


class CurrentTimer:
    """The timer that fires now."""

    __slots__ = ("timer",)

    timer: DueTimer


class KeyedTimerContext(ElementContext, OnTimerContext):
    """The context of the timers of a keyed function with one or two inputs."""

    def __init__(self, current: CurrentTimer, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._current = current

    def timestamp(self) -> int:
        return self._current.timer.timestamp_ms

    def time_domain(self) -> TimeDomain:
        return DOMAINS[self._current.timer.clock]


class BroadcastTimerContext(KeyedElementContext, KeyedBroadcastOnTimerContext):
    """The context of the timers of a keyed function with a broadcast input."""

    def __init__(self, current: CurrentTimer, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._current = current

    def timestamp(self) -> int:
        return self._current.timer.timestamp_ms

    def time_domain(self) -> TimeDomain:
        return DOMAINS[self._current.timer.clock]
