"""Check that stored keys belong where they are stored.

A stored key begins with its key group, which is the hash of the key. Files with other keys were
exchanged with those of another subtask or state, or copied over them.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, TypeVar

from queryable_state.wire.errors import CorruptDataError, QueryableStateError
from queryable_state.wire.keys.key_groups import KeyGroups
from queryable_state.wire.operator_state import OPERATOR_KINDS
from queryable_state.wire.schema.types import TypeInfo

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from queryable_state.server.storage.store import StateStore
    from queryable_state.v1.registration_pb2 import StateRegistration

_T = TypeVar("_T")

_CHECKED_KEYS = 4
"""Keys that are checked of each block: all keys of an exchanged file are wrong."""

_CHECKED_GROUPS = 4
"""Key groups of a database that are checked, evenly spread."""

_CURE = (
    "it was exchanged with the file of another subtask or state, or copied over it; put the right "
    "file back from a copy of the state root, or start the job from a savepoint"
)


def sample(items: Sequence[_T]) -> list[_T]:
    """4 of the items, evenly spread; all of fewer ones."""
    # By index: stepping through a block takes longer than the check.
    return [items[i] for i in range(0, len(items), max(1, -(-len(items) // _CHECKED_KEYS)))]


class KeyPlacement:
    """Raises `CorruptDataError` for keys outside of their file's key groups or of their hash's.

    Checks a sample. A key that cannot be decoded is left to its reader. Immutable; usable from
    every thread.
    """

    def __init__(self, states: Mapping[int, StateRegistration]) -> None:
        """`states`: those of the operator, by id; the hash of other states' keys is unknown."""
        self._groups: dict[int, tuple[str, KeyGroups]] = {}
        for state_id, state in states.items():
            if state.kind in OPERATOR_KINDS or state.max_parallelism <= 1:
                continue
            try:
                key_type = TypeInfo.from_proto(state.key_type)
                groups = KeyGroups(key_type, state.max_parallelism, state.partitioner)
            except QueryableStateError:
                # Of newer software: its reads are refused with this cause.
                continue
            self._groups[state_id] = state.state_name, groups

    def check(
        self, file: str, state_id: int, keys: Sequence[bytes], key_groups: tuple[int, int]
    ) -> None:
        """Checks 4 of the keys, evenly spread. `key_groups`: first and last one of the file."""
        first, last = key_groups
        for key in sample(keys):
            stored = int.from_bytes(key[:2])
            if not first <= stored <= last:
                raise CorruptDataError(
                    f"{file} is of key groups {first} to {last}, but has a key of key group "
                    f"{stored}: {_CURE}"
                )
            hashed = self._hashed(state_id, key)
            if hashed is not None and hashed != stored:
                name, _ = self._groups[state_id]
                raise CorruptDataError(
                    f"{file} has a key of state {name!r} in key group {stored}, but it hashes to "
                    f"key group {hashed}: {_CURE}"
                )

    def check_store(self, file: str, store: StateStore, key_groups: tuple[int, int]) -> None:
        """Checks 4 keys in each of 4 key groups of every state, and that there are no others.

        Blocking. `store` has all states.
        """
        first, last = key_groups
        step = max(1, (last + 1 - first) // _CHECKED_GROUPS)
        starts = [b"", *(group.to_bytes(2) for group in range(first, last + 1, step))]
        with store.view() as view:
            for state_id in self._groups:
                for start in (*starts, (last + 1).to_bytes(2)):
                    records = islice(view.scan(state_id, start, None), _CHECKED_KEYS)
                    self.check(file, state_id, [key for key, _ in records], key_groups)

    def _hashed(self, state_id: int, key: bytes) -> int | None:
        """The key group of a stored key by its hash; None if it is unknown."""
        known = self._groups.get(state_id)
        if known is None:
            return None
        _, groups = known
        try:
            value, end = groups.codec.decode(key, 2)
            wire_key = groups.wire_key(value)
        except (QueryableStateError, ValueError, OverflowError):
            return None
        return int.from_bytes(wire_key[:2]) if wire_key[2:] == key[2:end] else None
