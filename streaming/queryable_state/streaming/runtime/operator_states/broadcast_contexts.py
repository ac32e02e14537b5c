"""Contexts of broadcast process functions; one object for all elements of an input in a task."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any, NoReturn

from queryable_state.streaming.operator_state.broadcast_functions import (
    BaseContext,
    KeyedBroadcastContext,
    KeyedBroadcastReadOnlyContext,
)
from queryable_state.wire.errors import InvalidRequestError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from queryable_state.streaming.descriptors import MapStateDescriptor, StateDescriptor
    from queryable_state.streaming.operator_state.broadcast_functions import KeyedStateFunction
    from queryable_state.streaming.runtime.columns.event_time import CurrentTime
    from queryable_state.streaming.runtime.operator_states.broadcast_state import (
        ReadOnlyBroadcastView,
        TaskBroadcastState,
    )
    from queryable_state.streaming.runtime.states.task_states import TaskStates
    from queryable_state.streaming.stateless.timers import TimerService


class _Clocks(BaseContext):
    def __init__(self, owned: TaskStates, time: CurrentTime) -> None:
        self._owned = owned
        self._time = time

    def timestamp(self) -> int | None:
        return self._time.ms

    def current_processing_time(self) -> int:
        return self._owned.batch_timestamp_ms

    def current_watermark(self) -> int:
        return self._owned.watermark_ms


class KeyedElementContext(_Clocks, KeyedBroadcastReadOnlyContext):
    """Context of the elements of the stream that is not broadcast."""

    def __init__(
        self,
        owned: TaskStates,
        time: CurrentTime,
        views: Mapping[str, ReadOnlyBroadcastView],
        timers: TimerService,
        *,
        pickled_keys: bool,
    ) -> None:
        super().__init__(owned, time)
        self._views = views
        self._timers = timers
        self._keys = owned.keys.keys
        self._current_key = owned.current_key
        self._pickled_keys = pickled_keys

    def get_current_key(self) -> Any:
        key = self._keys[self._current_key.slot]
        return pickle.loads(key) if self._pickled_keys else key  # noqa: S301 - the job's own

    def timer_service(self) -> TimerService:
        return self._timers

    def get_broadcast_state(self, state_descriptor: MapStateDescriptor) -> ReadOnlyBroadcastView:
        try:
            return self._views[state_descriptor.name]
        except KeyError:
            raise_unknown(state_descriptor, self._views)


class BroadcastElementContext(_Clocks, KeyedBroadcastContext):
    """Context of the broadcast elements."""

    def __init__(
        self,
        owned: TaskStates,
        time: CurrentTime,
        states: Mapping[str, TaskBroadcastState],
        apply: Callable[[StateDescriptor, Any], None],
    ) -> None:
        super().__init__(owned, time)
        self._states = states
        self._apply = apply

    def get_broadcast_state(self, state_descriptor: MapStateDescriptor) -> TaskBroadcastState:
        try:
            return self._states[state_descriptor.name]
        except KeyError:
            raise_unknown(state_descriptor, self._states)

    def apply_to_keyed_state(
        self,
        state_descriptor: StateDescriptor,
        function: KeyedStateFunction[Any] | Callable[[Any, Any], None],
    ) -> None:
        self._apply(state_descriptor, function)


def raise_unknown(descriptor: MapStateDescriptor, known: Iterable[str]) -> NoReturn:
    """Raises InvalidRequestError for a descriptor that was not passed to `broadcast`."""
    names = ", ".join(map(repr, known)) or "none"
    raise InvalidRequestError(
        f"there is no broadcast state {descriptor.name!r}: the descriptors passed to "
        f"broadcast(...) are {names}; pass this one, too, or correct its name"
    ) from None
