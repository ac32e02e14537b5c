"""Contexts of user functions: `RuntimeContext` for `open`, `Context` for each element."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any, Final, TypeVar

from queryable_state.streaming.descriptors import (
    ListStateDescriptor,
    MapStateDescriptor,
    ValueStateDescriptor,
)
from queryable_state.streaming.functions import (
    AggregatingStateDescriptor,
    Context,
    ReducingStateDescriptor,
    RuntimeContext,
)
from queryable_state.streaming.runtime.states.expiring.expiring_list import ExpiringList
from queryable_state.streaming.runtime.states.expiring.expiring_map import ExpiringMap
from queryable_state.streaming.runtime.states.expiring.expiring_values import (
    ExpiringAggregating,
    ExpiringReducing,
    ExpiringValue,
)
from queryable_state.streaming.runtime.states.list_state import CachedList
from queryable_state.streaming.runtime.states.map_state import CachedMap
from queryable_state.streaming.runtime.states.value_states import (
    CachedAggregating,
    CachedReducing,
    CachedValue,
)
from queryable_state.streaming.stateless.metrics import MetricGroup, TaskMetrics
from queryable_state.streaming.stateless.timers import TimerService
from queryable_state.wire.errors import InvalidRequestError, JobError, Reason
from queryable_state.wire.keys.timer_keys import Clock

if TYPE_CHECKING:
    from collections.abc import Callable

    from queryable_state.streaming.descriptors import StateDescriptor
    from queryable_state.streaming.runtime.columns.event_time import CurrentTime
    from queryable_state.streaming.runtime.states.cached_state import CachedState, CurrentKey
    from queryable_state.streaming.runtime.states.key_table import KeyTable
    from queryable_state.streaming.runtime.states.task_states import TaskStates
    from queryable_state.streaming.runtime.timers.task_timers import TaskTimers


_State = TypeVar("_State", bound="CachedState")


_EXPIRING: dict[type[CachedState], type[CachedState]] = {
    CachedValue: ExpiringValue,
    CachedList: ExpiringList,
    CachedMap: ExpiringMap,
    CachedReducing: ExpiringReducing,
    CachedAggregating: ExpiringAggregating,
}
"""The class of a state with a TTL, by its class without."""


def new_state(descriptor: StateDescriptor, state_class: type[_State]) -> _State:
    """A state of this class, or of the class for a state with a TTL, which derives from it."""
    chosen: type[CachedState] = state_class
    if descriptor.ttl_config is not None:
        chosen = _EXPIRING.get(state_class, state_class)
    state = chosen(descriptor)
    assert isinstance(state, state_class)
    return state


class DeclaringContext(RuntimeContext):
    """Collects the states that a function requests; they are usable after `bind`."""

    def __init__(
        self,
        *,
        name: str = "operator",
        subtask: int = 0,
        parallelism: int = 1,
        max_parallelism: int = 128,
    ) -> None:
        self.states: dict[str, CachedState] = {}
        """Requested states by name, in order."""
        self._name = name
        self._subtask = subtask
        self._parallelism = parallelism
        self._max_parallelism = max_parallelism
        self._closed = False
        self.metrics: TaskMetrics | None = None
        """The metrics of the functions; None: no function has asked for any."""

    @property
    def descriptors(self) -> list[StateDescriptor]:
        """Descriptors of the requested states, in order."""
        return [state.descriptor for state in self.states.values()]

    def end_declarations(self) -> None:
        """Refuses further requests: the states are being registered."""
        self._closed = True

    def get_state(self, state_descriptor: ValueStateDescriptor) -> CachedValue:
        return self.declared(state_descriptor, ValueStateDescriptor, CachedValue)

    def get_list_state(self, state_descriptor: ListStateDescriptor) -> CachedList:
        return self.declared(state_descriptor, ListStateDescriptor, CachedList)

    def get_map_state(self, state_descriptor: MapStateDescriptor) -> CachedMap:
        return self.declared(state_descriptor, MapStateDescriptor, CachedMap)

    def get_reducing_state(self, state_descriptor: ReducingStateDescriptor) -> CachedReducing:
        return self.declared(state_descriptor, ReducingStateDescriptor, CachedReducing)

    def get_aggregating_state(
        self, state_descriptor: AggregatingStateDescriptor
    ) -> CachedAggregating:
        return self.declared(state_descriptor, AggregatingStateDescriptor, CachedAggregating)

    def get_task_name(self) -> str:
        return self._name

    def get_index_of_this_subtask(self) -> int:
        return self._subtask

    def get_number_of_parallel_subtasks(self) -> int:
        return self._parallelism

    def get_max_number_of_parallel_subtasks(self) -> int:
        return self._max_parallelism

    def get_metrics_group(self) -> MetricGroup:
        if self.metrics is None:
            self.metrics = TaskMetrics(self._name)
        return MetricGroup(self.metrics)

    def declared(
        self, descriptor: Any, expected: type[StateDescriptor], state_class: type[_State]
    ) -> _State:
        """The state of a descriptor; declares it at the first request."""
        if not isinstance(descriptor, expected):
            raise InvalidRequestError(
                f"operator {self._name!r}: expected a {expected.__name__}, not {descriptor!r}"
            )
        declared = self.states.get(descriptor.name)
        if declared is None:
            self._check_new(descriptor)
            declared = self.states[descriptor.name] = new_state(descriptor, state_class)
        elif declared.descriptor != descriptor:
            raise JobError(
                f"operator {self._name!r}: state {descriptor.name!r} is requested with two "
                f"different descriptors: {declared.descriptor!r} and {descriptor!r}; rename one"
            )
        assert isinstance(declared, state_class)
        return declared

    def _check_new(self, descriptor: StateDescriptor) -> None:
        if self._closed:
            raise JobError(
                f"operator {self._name!r}: state {descriptor.name!r} is requested outside open() "
                "of a process function: request every state there",
                reason=Reason.INVALID_REQUEST,
            )
        if descriptor.queryable_name is None:
            return
        for other in self.descriptors:
            if other.queryable_name == descriptor.queryable_name:
                raise JobError(
                    f"operator {self._name!r}: states {other.name!r} and {descriptor.name!r} are "
                    f"both queryable as {descriptor.queryable_name!r}: use names that are unique "
                    "within the job",
                    reason=Reason.DUPLICATE_NAME,
                )


class ElementContext(Context):
    """The context of all elements of a task; one object, whose current key and time change."""

    def __init__(
        self,
        current_key: CurrentKey,
        keys: KeyTable,
        timers: Callable[[], TimerService],
        time: CurrentTime,
        *,
        watermark_ms: int,
        pickled_keys: bool = False,
    ) -> None:
        """`timers` makes the timer service; called once, when the function asks for it."""
        self._current_key = current_key
        self._keys = keys.keys
        self._time = time
        self._new_timers = timers
        self._timers: TimerService | None = None
        self._watermark_ms = watermark_ms
        self._pickled_keys = pickled_keys

    def get_current_key(self) -> Any:
        key = self._keys[self._current_key.slot]
        return pickle.loads(key) if self._pickled_keys else key  # noqa: S301 - the job's own

    def timestamp(self) -> int | None:
        return self._time.ms

    def current_watermark(self) -> int:
        return self._watermark_ms

    def timer_service(self) -> TimerService:
        if self._timers is None:
            self._timers = self._new_timers()
        return self._timers


class BatchClocks(TimerService):
    """The clocks of a batch, the same when it is replayed."""

    def __init__(self, batch_timestamp_ms: int, watermark_ms: int) -> None:
        self._batch_timestamp_ms = batch_timestamp_ms
        self._watermark_ms = watermark_ms

    def current_processing_time(self) -> int:
        return self._batch_timestamp_ms

    def current_watermark(self) -> int:
        return self._watermark_ms


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
