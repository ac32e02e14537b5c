"""Operator state, which belongs to no key: redistribution over a new parallelism, and equality of
broadcast state on all subtasks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from xxhash import xxh64, xxh64_intdigest

from queryable_state.v1.registration_pb2 import StateKind
from queryable_state.wire.errors import InvalidRequestError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from queryable_state.server.storage.overlay import Overlay
    from queryable_state.v1.registration_pb2 import StateRegistration

_BITS = (1 << 64) - 1


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


def broadcast_digest(overlay: Overlay, states: Mapping[int, StateRegistration]) -> int:
    """Digest of the broadcast states that an overlay changes; 0 if there are none.

    Subtasks that change broadcast states to the same entries have the same digest.
    """
    digest = 0
    for state_id, elements in overlay.operator_states.items():
        state = states.get(state_id)
        if state is not None and state.kind == StateKind.BROADCAST:
            hashed = xxh64(state.state_name.encode())
            for element in elements:
                hashed.update(xxh64_intdigest(element).to_bytes(8))
            # Never 0, so that a state without entries counts as changed.
            digest += hashed.intdigest() | 1
    return digest & _BITS
