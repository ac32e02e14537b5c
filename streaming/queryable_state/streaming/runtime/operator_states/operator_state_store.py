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
from queryable_state.streaming.runtime.operator_states.operator_list import TaskOperatorList
from queryable_state.wire.errors import JobError, Reason

if TYPE_CHECKING:
    from collections.abc import Callable

    from queryable_state.streaming.descriptors import (
        ListStateDescriptor,
        MapStateDescriptor,
        StateDescriptor,
    )
    from queryable_state.streaming.runtime.operator_states.operator_state import TaskOperatorState

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
