"""Timer service of the keyed functions of a task."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from queryable_state.streaming.runtime.operators.context import BatchClocks
from queryable_state.wire.errors import InvalidRequestError, Reason
from queryable_state.wire.keys.timer_keys import Clock

if TYPE_CHECKING:
    from queryable_state.streaming.runtime.states.task_states import TaskStates
    from queryable_state.streaming.runtime.timers.task_timers import TaskTimers

# A look-up in the enumeration for each call is slower.
_EVENT_TIME: Final = Clock.EVENT_TIME
_PROCESSING_TIME: Final = Clock.PROCESSING_TIME


class KeyedTimerService(BatchClocks):
    """The clocks of a batch, and the timers of the current key of the task."""

    def __init__(self, owned: TaskStates, timers: TaskTimers | None) -> None:
        """`timers`: None for a function without `on_timer`."""
        super().__init__(owned.batch_timestamp_ms, owned.watermark_ms)
        self._current_key = owned.current_key
        self._wire_keys = owned.keys.wire_keys
        self._where = owned.where
        self._timers = timers

    def register_processing_time_timer(self, timestamp: int) -> None:
        if self._timers is None:
            raise self._refused("register_processing_time_timer")
        self._timers.register(_PROCESSING_TIME, timestamp, self._wire_keys[self._current_key.slot])

    def register_event_time_timer(self, timestamp: int) -> None:
        if self._timers is None:
            raise self._refused("register_event_time_timer")
        self._timers.register(_EVENT_TIME, timestamp, self._wire_keys[self._current_key.slot])

    def delete_processing_time_timer(self, timestamp: int) -> None:
        if self._timers is None:
            raise self._refused("delete_processing_time_timer")
        self._timers.delete(_PROCESSING_TIME, timestamp, self._wire_keys[self._current_key.slot])

    def delete_event_time_timer(self, timestamp: int) -> None:
        if self._timers is None:
            raise self._refused("delete_event_time_timer")
        self._timers.delete(_EVENT_TIME, timestamp, self._wire_keys[self._current_key.slot])

    def _refused(self, method: str) -> InvalidRequestError:
        return InvalidRequestError(
            f"{self._where}: ctx.timer_service().{method}(): the function has no on_timer, so its "
            "timers would do nothing: define on_timer(self, timestamp, ctx) in its class",
            reason=Reason.UNSUPPORTED,
        )
