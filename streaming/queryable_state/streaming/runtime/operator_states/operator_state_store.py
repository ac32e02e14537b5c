"""Operator states that a function requests in one task."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from queryable_state.streaming.operator_state.checkpointed import OperatorStateStore
from queryable_state.streaming.operator_state.descriptors import (
    BroadcastStateDescriptor,
    OperatorListDescriptor,
    UnionListDescriptor,
)
from queryable_state.streaming.runtime.operator_states.broadcast_state import TaskBroadcastState
from queryable_state.streaming.runtime.operator_states.operator_state import TaskOperatorState
from queryable_state.streaming.state import ListState
from queryable_state.wire.errors import JobError, Reason, SerializationError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from queryable_state.streaming.descriptors import (
        ListStateDescriptor,
        MapStateDescriptor,
        StateDescriptor,
    )
    from queryable_state.wire.values.value_codec import ValueCodec


class TaskOperatorList(TaskOperatorState, ListState[Any]):
    """Elements in the order in which they were added; held as stored bytes.

    So a read makes new objects, and changing them in place does not change the state.
    """

    _elements: list[bytes] | None = None
    _codec: ValueCodec

    def get(self) -> list[Any]:
        held = self._held()
        return list(map(self._codec.decode, held))

    def add(self, value: Any) -> None:
        self._held().append(self._encoded(value, "add"))
        self._written = True

    def add_all(self, values: Iterable[Any]) -> None:
        held = self._held()
        held += [self._encoded(value, "add_all") for value in values]
        self._written = True

    def update(self, values: Iterable[Any]) -> None:
        self._elements = [self._encoded(value, "update") for value in values]
        self._written = True

    def clear(self) -> None:
        self._bound()
        self._elements = []
        self._written = True

    def is_empty(self) -> bool:
        return not self._held()

    def __len__(self) -> int:
        return len(self._held())

    def elements(self) -> list[bytes]:
        return self._held()

    def _adopt(self, codec: ValueCodec) -> None:
        self._codec = codec

    def _held(self) -> list[bytes]:
        self._bound()
        if self._elements is None:
            self._elements = list(self._fetched())
        return self._elements

    def _encoded(self, value: Any, method: str) -> bytes:
        self._bound()
        if value is None:
            raise SerializationError(
                f"{self._where()}: {method} was called with None, but a list takes no null: omit "
                "the element"
            )
        try:
            return self._codec.encode(value)
        except SerializationError as problem:
            raise self._unfit("element", self._codec.type_info, problem) from problem


_State = TypeVar("_State", bound="TaskOperatorState")


class TaskOperatorStateStore(OperatorStateStore):
    """Collects the requested states; one that is read at once makes the task begin."""

    def __init__(self, operator_name: str, begin: Callable[[], None]) -> None:
        self.states: dict[str, TaskOperatorState] = {}
        """Requested states by name, in order."""
        self._operator_name = operator_name
        self._begin = begin
        self._closed = False

    def end_declarations(self) -> None:
        """Refuses further new states: all are being registered."""
        self._closed = True

    def get_list_state(self, state_descriptor: ListStateDescriptor) -> TaskOperatorList:
        return self._requested(OperatorListDescriptor.of(state_descriptor), TaskOperatorList)

    def get_union_list_state(self, state_descriptor: ListStateDescriptor) -> TaskOperatorList:
        return self._requested(UnionListDescriptor.of(state_descriptor), TaskOperatorList)

    def get_broadcast_state(self, state_descriptor: MapStateDescriptor) -> TaskBroadcastState:
        return self._requested(BroadcastStateDescriptor.of(state_descriptor), TaskBroadcastState)

    def get_registered_state_names(self) -> set[str]:
        return {n for n, state in self.states.items() if isinstance(state, TaskOperatorList)}

    def get_registered_broadcast_state_names(self) -> set[str]:
        return {n for n, state in self.states.items() if isinstance(state, TaskBroadcastState)}

    def _requested(self, descriptor: StateDescriptor, state_class: type[_State]) -> _State:
        known = self.states.get(descriptor.name)
        if known is None:
            if self._closed:
                raise JobError(
                    f"operator {self._operator_name!r}: operator state {descriptor.name!r} is "
                    "requested outside initialize_state: request every state there",
                    reason=Reason.INVALID_REQUEST,
                )
            make: Any = state_class
            known = self.states[descriptor.name] = make(descriptor, self._begin)
        elif known.descriptor != descriptor:
            raise JobError(
                f"operator {self._operator_name!r}: operator state {descriptor.name!r} is "
                f"requested with two different descriptors: {known.descriptor!r} and "
                f"{descriptor!r}; rename one"
            )
        assert isinstance(known, state_class)
        return known
