"""Operator state on the wire: the keys of its subtasks and the bytes of its elements.

Operator state belongs to a subtask, not to a key. On the wire a subtask is a key: the first and
the last key group of its range (2 bytes each, big-endian). So the first two bytes route to the
subtask's owner, as for any key, and a key of another parallelism names a range that nobody owns.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

from queryable_state.v1 import registration_pb2
from queryable_state.wire.errors import CorruptDataError, InvalidRequestError, KeyTypeError, Reason
from queryable_state.wire.keys.key_codec import KeyCodec
from queryable_state.wire.keys.key_groups import key_group_range
from queryable_state.wire.schema.type_model import Kind, TypeInfo

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

OPERATOR_KINDS = frozenset(
    {
        registration_pb2.OPERATOR_LIST,
        registration_pb2.OPERATOR_UNION,
        registration_pb2.BROADCAST,
    }
)
"""The kinds of operator state."""

SUBTASK_TYPE = TypeInfo(Kind.INT)
"""Registered key type of operator state: the index of a subtask, from 0."""

_RANGE = struct.Struct(">HH")
_KEY_BYTES = struct.Struct(">I")


def subtask_key(first_key_group: int, last_key_group: int) -> bytes:
    """The wire key of the subtask that has these key groups, both inclusive."""
    return _RANGE.pack(first_key_group, last_key_group)


def subtask_key_of(subtask: int, parallelism: int, max_parallelism: int) -> bytes:
    """The wire key of a subtask."""
    return subtask_key(*key_group_range(subtask, parallelism, max_parallelism))


class SubtaskKeys:
    """Wire keys of the subtasks of an operator. Immutable; usable from every thread.

    Same interface as `KeyGroups`: a key is the index of a subtask.
    """

    def __init__(self, ranges: Iterable[tuple[int, int]], max_parallelism: int) -> None:
        """`ranges` are the key groups of each subtask, both inclusive, by index."""
        self.key_type = SUBTASK_TYPE
        self.max_parallelism = max_parallelism
        self.codec = KeyCodec(SUBTASK_TYPE)
        self._keys = [subtask_key(first, last) for first, last in ranges]

    def __len__(self) -> int:
        return len(self._keys)

    def of(self, subtask: Any) -> int:
        """The first key group of a subtask."""
        return int.from_bytes(self.wire_key(subtask)[:2])

    def wire_key(self, subtask: Any) -> bytes:
        """The wire key of a subtask; raises InvalidRequestError if there is no such subtask."""
        if not isinstance(subtask, int) or isinstance(subtask, bool):
            raise KeyTypeError(
                f"the key of operator state is the index of a subtask, not {subtask!r}"
            )
        if not 0 <= subtask < len(self._keys):
            raise InvalidRequestError(
                f"there is no subtask {subtask}: the operator has the subtasks 0 to "
                f"{len(self._keys) - 1}"
            )
        return self._keys[subtask]

    def wire_keys(self, subtasks: Sequence[Any]) -> list[bytes]:
        """The wire keys of many subtasks."""
        return list(map(self.wire_key, subtasks))

    def decode_key(self, wire_key: bytes) -> int:
        """The subtask of a wire key."""
        try:
            return self._keys.index(wire_key)
        except ValueError:
            raise CorruptDataError(
                f"{wire_key[:16].hex()} is not the key of one of {len(self._keys)} subtasks"
            ) from None


def broadcast_element(key: bytes, value: bytes) -> bytes:
    """The stored element of one entry of a broadcast state."""
    return _KEY_BYTES.pack(len(key)) + key + value


def split_broadcast_element(element: bytes) -> tuple[bytes, bytes]:
    """Encoded key and value of a stored entry of a broadcast state."""
    try:
        (length,) = _KEY_BYTES.unpack_from(element)
    except struct.error:
        length = len(element)
    end = _KEY_BYTES.size + length
    if end >= len(element):
        raise CorruptDataError(
            f"an entry of a broadcast state of {len(element)} bytes has no key and value"
        )
    return element[_KEY_BYTES.size : end], element[end:]


_WATCHED_KINDS = (
    registration_pb2.VALUE,
    registration_pb2.REDUCING,
    registration_pb2.AGGREGATING,
    registration_pb2.LIST,
    registration_pb2.MAP,
)


def refuse_watch(registration: registration_pb2.StateRegistration) -> None:
    """Raises InvalidRequestError (UNSUPPORTED) for timers and operator state."""
    if registration.kind not in _WATCHED_KINDS:
        raise InvalidRequestError(
            f"state {registration.queryable_name!r} is of kind "
            f"{registration_pb2.StateKind.Name(registration.kind)}, which cannot be watched: watch "
            "a VALUE, REDUCING, AGGREGATING, LIST or MAP state",
            reason=Reason.UNSUPPORTED,
        )


def refuse_scan(registration: registration_pb2.StateRegistration) -> None:
    """Raises InvalidRequestError (UNSUPPORTED) for operator state, which has no keys to scan."""
    if registration.kind in OPERATOR_KINDS:
        raise InvalidRequestError(
            f"state {registration.queryable_name!r} is of kind "
            f"{registration_pb2.StateKind.Name(registration.kind)} and has no keys to scan: read "
            "it by subtask, or whole with get_operator_state",
            reason=Reason.UNSUPPORTED,
        )
