"""Contexts of assigners, triggers and window functions in one task."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from queryable_state.streaming.operator_state.checkpointed import KeyedStateStore
from queryable_state.streaming.runtime.windows.merged_state import merge_state
from queryable_state.streaming.runtime.windows.window_states import state_of
from queryable_state.streaming.windows.assigner import WindowAssigner
from queryable_state.streaming.windows.trigger import Trigger
from queryable_state.streaming.windows.window_functions import (
    ProcessAllWindowFunction,
    ProcessWindowFunction,
)
from queryable_state.wire.errors import InvalidRequestError
from queryable_state.wire.keys.timer_keys import Clock

if TYPE_CHECKING:
    from collections.abc import Sequence

    from queryable_state.streaming.functions import RuntimeContext
    from queryable_state.streaming.runtime.operators.context import DeclaringContext
    from queryable_state.streaming.runtime.timers.task_timers import TaskTimers
    from queryable_state.streaming.runtime.windows.cursor import WindowCursor
    from queryable_state.streaming.runtime.windows.window_states import WindowContext
    from queryable_state.streaming.state_descriptor import StateDescriptor
    from queryable_state.streaming.windows.window import Window


class AssignerContext(WindowAssigner.WindowAssignerContext):
    """Context of an assigner; its states refer to the current key."""

    def __init__(self, processing_time_ms: int, keyed: DeclaringContext) -> None:
        self._processing_time_ms = processing_time_ms
        self._keyed = keyed

    def get_current_processing_time(self) -> int:
        return self._processing_time_ms

    def get_runtime_context(self) -> RuntimeContext:
        return self._keyed


class TaskTriggerContext(Trigger.OnMergeContext):
    """Context of a trigger at the key and window of the cursor."""

    def __init__(
        self,
        cursor: WindowCursor,
        timers: TaskTimers,
        states: WindowContext,
        *,
        processing_time_ms: int,
        watermark_ms: int,
    ) -> None:
        self.merged_slots: Sequence[int] = ()
        """The slots of the windows that were merged, in `on_merge`."""
        self.with_cleanup: set[int] = set()
        """Slots whose cleanup timer this batch has registered and not deleted since."""
        self._cursor = cursor
        self._timers = timers
        self._states = states
        self._processing_time_ms = processing_time_ms
        self._watermark_ms = watermark_ms

    def get_current_processing_time(self) -> int:
        return self._processing_time_ms

    def get_current_watermark(self) -> int:
        return self._watermark_ms

    def register_processing_time_timer(self, time: int) -> None:
        self._register(Clock.PROCESSING_TIME, time)

    def register_event_time_timer(self, time: int) -> None:
        self._register(Clock.EVENT_TIME, time)

    def delete_processing_time_timer(self, time: int) -> None:
        self._delete(Clock.PROCESSING_TIME, time)

    def delete_event_time_timer(self, time: int) -> None:
        self._delete(Clock.EVENT_TIME, time)

    def get_partitioned_state(self, state_descriptor: StateDescriptor) -> Any:
        self._cursor.at_window()
        return state_of(self._states, state_descriptor)

    def merge_partitioned_state(self, state_descriptor: StateDescriptor) -> None:
        state = state_of(self._states, state_descriptor)
        merge_state(state, self._cursor, self._cursor.slot, self.merged_slots)
        self._cursor.at_window()

    def _register(self, clock: Clock, time: int) -> None:
        self._timers.register(clock, time, self._cursor.wire_key, self._cursor.namespace)

    def _delete(self, clock: Clock, time: int) -> None:
        self.with_cleanup.discard(self._cursor.slot)
        self._timers.delete(clock, time, self._cursor.wire_key, self._cursor.namespace)


class FunctionContext(ProcessWindowFunction.Context[Any], ProcessAllWindowFunction.Context[Any]):
    """Context of a window function at the key and window of the cursor."""

    def __init__(
        self,
        cursor: WindowCursor,
        window_state: KeyedStateStore,
        global_state: KeyedStateStore,
        *,
        processing_time_ms: int,
        watermark_ms: int,
    ) -> None:
        self._cursor = cursor
        self._window_state = window_state
        self._global_state = global_state
        self._processing_time_ms = processing_time_ms
        self._watermark_ms = watermark_ms

    def window(self) -> Window:
        return self._cursor.window

    def current_processing_time(self) -> int:
        return self._processing_time_ms

    def current_watermark(self) -> int:
        return self._watermark_ms

    def window_state(self) -> KeyedStateStore:
        return self._window_state

    def global_state(self) -> KeyedStateStore:
        return self._global_state


class DeclaredStore(KeyedStateStore):
    """The declared states of a context, or of windows that are merged: none."""

    def __init__(self, declared: RuntimeContext | None) -> None:
        """None: the store of windows that are merged."""
        self._declared = declared

    def get_state(self, state_descriptor: StateDescriptor) -> Any:
        return self._state(state_descriptor)

    def get_list_state(self, state_descriptor: StateDescriptor) -> Any:
        return self._state(state_descriptor)

    def get_map_state(self, state_descriptor: StateDescriptor) -> Any:
        return self._state(state_descriptor)

    def get_reducing_state(self, state_descriptor: StateDescriptor) -> Any:
        return self._state(state_descriptor)

    def get_aggregating_state(self, state_descriptor: StateDescriptor) -> Any:
        return self._state(state_descriptor)

    def _state(self, descriptor: StateDescriptor) -> Any:
        if self._declared is None:
            raise InvalidRequestError(
                f"window_state(): windows that are merged have no state of their own, so "
                f"{descriptor!r} cannot be kept there: use global_state(), which is that of the key"
            )
        return state_of(self._declared, descriptor)
