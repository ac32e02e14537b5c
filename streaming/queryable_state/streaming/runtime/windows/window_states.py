"""States of a window operator in one task: those of windows, and those of keys."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from queryable_state.streaming.descriptors import (
    ListStateDescriptor,
    MapStateDescriptor,
    ValueStateDescriptor,
)
from queryable_state.streaming.functions import (
    AggregatingStateDescriptor,
    Function,
    ReducingStateDescriptor,
)
from queryable_state.streaming.runtime.operators.context import DeclaringContext
from queryable_state.streaming.runtime.timers.timer_descriptor import TimerDescriptor
from queryable_state.streaming.state_descriptor import StateDescriptor
from queryable_state.streaming.windows.assigner import WindowAssigner
from queryable_state.streaming.windows.session_windows import SessionWindowTimeGapExtractor
from queryable_state.streaming.windows.trigger import Trigger
from queryable_state.wire.errors import InvalidRequestError, JobError, Reason
from queryable_state.wire.keys.time_window import TIME_WINDOW_TYPE
from queryable_state.wire.schema.types import Types

if TYPE_CHECKING:
    from collections.abc import Iterator

    from queryable_state.streaming.functions import RuntimeContext
    from queryable_state.streaming.runtime.operators.operator_run import OpenFunctions
    from queryable_state.streaming.runtime.states.cached_state import CachedState
    from queryable_state.streaming.runtime.windows.window_operator import WindowOperator
    from queryable_state.streaming.windows.window import Window
    from queryable_state.wire.schema.types import TypeInfo


_State = TypeVar("_State", bound="CachedState")

MERGING_SET = MapStateDescriptor("merging-window-set", TIME_WINDOW_TYPE, TIME_WINDOW_TYPE)
"""State of merged windows: from each live window to the window under which its state is."""


class WindowContext(DeclaringContext):
    """Collects states that belong to keys and windows."""

    def __init__(self, name: str, namespace_type: TypeInfo | None) -> None:
        super().__init__(name=name)
        self._namespace_type = namespace_type
        self._given: dict[int, tuple[StateDescriptor, CachedState]] = {}
        """By id of the descriptor as the user gave it, which is kept alive."""

    def declared(
        self, descriptor: Any, expected: type[StateDescriptor], state_class: type[_State]
    ) -> _State:
        known = self._given.get(id(descriptor))
        if known is not None:
            assert isinstance(known[1], state_class)
            return known[1]
        if not isinstance(descriptor, expected):
            raise InvalidRequestError(
                f"operator {self._name!r}: expected a {expected.__name__}, not {descriptor!r}"
            )
        own = descriptor.in_namespaces(self._namespace_type)
        state = super().declared(own, expected, state_class)
        state.windowed = True
        self._given[id(descriptor)] = (descriptor, state)
        return state

    def _check_new(self, descriptor: StateDescriptor) -> None:
        if self._closed:
            raise JobError(
                f"operator {self._name!r}: the state {descriptor.name!r} of windows was not known "
                "before the first element: keep its descriptor in an attribute of the trigger or "
                "of the window function, for example set in __init__",
                reason=Reason.INVALID_REQUEST,
            )
        super()._check_new(descriptor)


class WindowStates:
    """All states of a window operator; usable after `bind` of each."""

    def __init__(
        self, operator: WindowOperator, keyed: DeclaringContext, functions: OpenFunctions
    ) -> None:
        """Opens the functions of the operator, which declare the states.

        `keyed` collects the states that belong to keys: those of the assigner, and those that the
        window function requests in `open`.
        """
        self.keyed = keyed
        self.windowed = WindowContext(keyed.get_task_name(), operator.kind.namespace_type)
        self.timers = TimerDescriptor().in_namespaces(operator.kind.namespace_type)
        self.contents: Any = state_of(self.windowed, operator.contents)
        if operator.function is not None:
            functions.open(operator.function, keyed)
        for descriptor in found_descriptors(operator.assigner):
            state_of(keyed, descriptor)
        self.merging_set = keyed.get_map_state(MERGING_SET) if operator.is_merging else None
        self.fired = None if operator.fired is None else FiredState(operator.fired, keyed)
        for descriptor in found_descriptors(operator.trigger):
            state_of(self.windowed, descriptor)
        # Windows that are merged have no state of the function.
        if not operator.is_merging:
            for descriptor in found_descriptors(operator.function):
                if descriptor.name not in keyed.states:
                    state_of(self.windowed, descriptor)
        self._check_names()
        keyed.end_declarations()
        self.windowed.end_declarations()
        for state in self.all:
            if isinstance(state.descriptor.function, Function):
                functions.open(state.descriptor.function, keyed)

    @property
    def all(self) -> list[CachedState]:
        """The states, without the timers."""
        return [*self.windowed.states.values(), *self.keyed.states.values()]

    @property
    def descriptors(self) -> list[StateDescriptor]:
        """The descriptors of all states and of the timers."""
        return [*(state.descriptor for state in self.all), self.timers]

    def _check_names(self) -> None:
        both = sorted(self.windowed.states.keys() & self.keyed.states.keys())
        if both:
            raise JobError(
                f"operator {self.keyed.get_task_name()!r}: {both[0]!r} is the name of state of "
                "keys and of state of windows: rename one",
                reason=Reason.DUPLICATE_NAME,
            )


def state_of(context: RuntimeContext, descriptor: StateDescriptor) -> Any:
    """The state of a descriptor of any kind."""
    match descriptor:
        case ReducingStateDescriptor():
            return context.get_reducing_state(descriptor)
        case AggregatingStateDescriptor():
            return context.get_aggregating_state(descriptor)
        case ListStateDescriptor():
            return context.get_list_state(descriptor)
        case ValueStateDescriptor():
            return context.get_state(descriptor)
        case MapStateDescriptor():
            return context.get_map_state(descriptor)
    raise InvalidRequestError(f"expected the descriptor of a state, not {descriptor!r}")


_LAST_TIMESTAMP = ValueStateDescriptor("fired-window-timestamp", Types.LONG())


class FiredState:
    """The newest result of the current key. It stays when its window has ended."""

    def __init__(self, descriptor: ValueStateDescriptor, keyed: RuntimeContext) -> None:
        """Requests the states; they are usable after `bind`."""
        self._result = keyed.get_state(descriptor)
        self._last_timestamp = keyed.get_state(_LAST_TIMESTAMP)

    def update(self, window: Window, result: Any) -> None:
        """Takes the result of a window that fires, unless a newer window has fired before."""
        newest, last = self._last_timestamp.value(), window.max_timestamp()
        if newest is None or newest <= last:
            self._result.update(result)
            self._last_timestamp.update(last)


_OWNERS = (Trigger, WindowAssigner, Function, SessionWindowTimeGapExtractor)


def found_descriptors(owner: object) -> list[StateDescriptor]:
    """The descriptors in attributes of an object and of its class, each once, in order.

    Attributes that are triggers, assigners or functions are searched, too, and so are lists, tuples
    and dicts.
    """
    found: dict[int, StateDescriptor] = {}
    seen: set[int] = set()
    for descriptor in _found(owner, seen):
        found.setdefault(id(descriptor), descriptor)
    return list(found.values())


def _found(value: Any, seen: set[int]) -> Iterator[StateDescriptor]:
    if isinstance(value, StateDescriptor):
        yield value
    elif isinstance(value, list | tuple | dict):
        for each in value.values() if isinstance(value, dict) else value:
            yield from _found(each, seen)
    elif isinstance(value, _OWNERS) and id(value) not in seen:
        seen.add(id(value))
        for owner in (*reversed(type(value).__mro__), value):
            for each in list(getattr(owner, "__dict__", {}).values()):
                yield from _found(each, seen)
