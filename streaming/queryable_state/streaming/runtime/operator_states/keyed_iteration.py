"""Iteration over all keys of a subtask that have one state."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from queryable_state.streaming.runtime.states.value_states import SingleValueState
from queryable_state.streaming.state import ListState, MapState

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from queryable_state.streaming.runtime.states.cached_state import CachedState
    from queryable_state.streaming.runtime.states.task_states import TaskStates


def visit_keys(
    owned: TaskStates,
    state: CachedState,
    states: Collection[CachedState],
    process: Callable[[Any, Any], None],
) -> None:
    """Calls `process(key, state)` once for each key that has the state when it is its turn.

    First the keys with records before the batch, page by page, then all other keys of the task.
    `states` are all keyed states of the task; all may be used in the call.
    """
    visited: set[int] = set()
    for state_to_enter in states:
        state_to_enter.enter()
    for wire_keys in owned.stored_keys(state):
        slots = [slot for slot in owned.add_wire_keys(wire_keys) if slot not in visited]
        visited.update(slots)
        _visit(owned, state, slots, process)
    # The calls may add keys only by their own writes, to which the task has slots already.
    rest = [slot for slot in range(len(owned.keys)) if slot not in visited]
    owned.keys.chunk_slots = rest
    _visit(owned, state, rest, process)
    for state_to_leave in states:
        state_to_leave.leave()


def _visit(
    owned: TaskStates,
    state: CachedState,
    slots: Iterable[int],
    process: Callable[[Any, Any], None],
) -> None:
    keys, current_key = owned.keys.keys, owned.current_key
    for slot in slots:
        current_key.slot = slot
        if _is_present(state):
            process(keys[slot], state)


def _is_present(state: Any) -> bool:
    """True if the current key has the state; does not count as a read of a state with a TTL."""
    if isinstance(state, MapState | ListState):
        return not state.is_empty()
    assert isinstance(state, SingleValueState)
    return state.is_present()
