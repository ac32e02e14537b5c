"""Changes of one version of a store: puts, deletes and merges of raw keys and values."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum


class ChangeKind(IntEnum):
    """The effect of a change on its key; the numbers are those of Spark's changelogs."""

    PUT = 0x01
    """Replaces the value."""

    DELETE = 0x10
    """Removes the value; the change's own value is empty."""

    MERGE = 0x11
    """Appends to the value, behind the store's `merge_delimiter` if there is a value."""


Change = tuple[ChangeKind, bytes, bytes]
"""Kind, key, value. A tuple, because files have hundreds of thousands of them."""

Changes = Iterator[Change]


@dataclass(frozen=True, slots=True)
class FoldedChanges:
    """The effect of all changes of one version, one entry a key."""

    values: dict[bytes, bytes | None]
    """New values; None removes the key."""

    appended: dict[bytes, bytes]
    """What to append to values of earlier versions: old value, delimiter, this. A key without an
    old value gets this as its value. Its keys are not in `values`."""


def fold(changes: Changes, merge_delimiter: bytes) -> FoldedChanges:
    """Folds the changes of one version in their order."""
    values: dict[bytes, bytes | None] = {}
    appended: dict[bytes, bytes] = {}
    put, delete = ChangeKind.PUT, ChangeKind.DELETE
    for kind, key, value in changes:
        if kind is put:
            values[key] = value
        elif kind is delete:
            values[key] = None
            if appended:
                appended.pop(key, None)
        elif key in values:
            old = values[key]
            values[key] = value if old is None else old + merge_delimiter + value
        else:
            earlier = appended.get(key)
            appended[key] = value if earlier is None else earlier + merge_delimiter + value
    for key in values.keys() & appended.keys():
        # Merged first and replaced afterwards.
        del appended[key]
    return FoldedChanges(values, appended)
