"""What subtasks keep that belongs to no key, and how it is shared out anew."""

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
    """The elements subtask `index` of `parallelism` starts with.

    `lists` are those of the former subtasks, by their index. Of a list every
    element goes to one subtask, in turns, ordered by former subtask and position;
    of a union all elements to every one; broadcast is equal everywhere, and the
    first former subtask that has any speaks for all.
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
        f"state kind {StateKind.Name(kind)} is kept by key: it moves with its key groups"
    )
