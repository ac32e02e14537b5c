"""Redistribution of operator state, which belongs to no key, over a new parallelism."""

from __future__ import annotations

from typing import TYPE_CHECKING

from queryable_state.v1.registration_pb2 import StateKind
from queryable_state.wire.errors import InvalidRequestError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def redistributed(
    kind: StateKind.ValueType,
    lists: Mapping[int, Sequence[bytes]],
    *,
    index: int,
    parallelism: int,
) -> tuple[bytes, ...]:
    """The elements with which subtask `index` of `parallelism` starts.

    `lists` holds the elements of the former subtasks by their index. The elements of a
    list are dealt out round-robin, ordered by former subtask and position. Each subtask
    gets all elements of a union. Broadcast state is equal on all subtasks, so the first
    former subtask with elements supplies it.
    """
    former = [tuple(lists[subtask]) for subtask in sorted(lists)]
    if kind == StateKind.BROADCAST:
        return next((elements for elements in former if elements), ())
    elements = tuple(element for each in former for element in each)
    if kind == StateKind.OPERATOR_UNION:
        return elements
    if kind == StateKind.OPERATOR_LIST:
        return elements[index::parallelism]
    raise InvalidRequestError(
        f"cannot redistribute a state of kind {StateKind.Name(kind)}: it is keyed and moves with "
        "its key groups"
    )
