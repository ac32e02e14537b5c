"""Merging of the state of several windows into that of one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from queryable_state.streaming.runtime.states.value_states import CachedAggregating
from queryable_state.streaming.state import ListState, ReducingState
from queryable_state.wire.errors import InvalidRequestError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from queryable_state.streaming.runtime.windows.cursor import WindowCursor


def merge_state(state: Any, cursor: WindowCursor, target: int, sources: Iterable[int]) -> None:
    """Moves the state of the source slots to the target slot, in order.

    Raises InvalidRequestError unless it is list, reducing or aggregating state.
    """
    if not isinstance(state, ListState | ReducingState | CachedAggregating):
        raise InvalidRequestError(
            f"merge_partitioned_state: state {state.descriptor.name!r} cannot be merged: use a "
            "list, reducing or aggregating state"
        )
    for source in sources:
        cursor.at(source)
        if isinstance(state, CachedAggregating):
            moved = state.accumulator()
        else:
            moved = state.get()
        if moved is None or (isinstance(state, ListState) and moved == []):
            continue
        state.clear()
        cursor.at(target)
        if isinstance(state, CachedAggregating):
            state.add_accumulator(moved)
        elif isinstance(state, ListState):
            state.add_all(moved)
        else:
            state.add(moved)
