"""The two record streams of state files, after decompression.

*Sized* records (deltas and snapshots of the HDFS-backed provider, changelogs v1 and v3) are key
size, key, value size, value; a value size of -1 deletes the key and a key size of -1 ends the
file. *Typed* records (changelogs v2 and v4) begin with a byte, and a zero byte ends the file.
Sizes are big-endian.
"""

from __future__ import annotations

import struct
from struct import Struct
from typing import TYPE_CHECKING

from queryable_state.server.native_state.files.changes import ChangeKind
from queryable_state.server.native_state.files.outcomes import damaged

if TYPE_CHECKING:
    from queryable_state.server.native_state.files.changes import Changes

_INT = Struct(">i")
_END = 0x00
_NO_SIZE = -1


def sized_records(data: bytes, file: str, position: int = 0) -> Changes:
    """Yields the sized records from `position` on; raises CorruptDataError at damage."""
    unpack = _INT.unpack_from
    put, delete = ChangeKind.PUT, ChangeKind.DELETE
    size = len(data)
    record = position
    try:
        while True:
            record = position
            (length,) = unpack(data, position)
            if length < 0:
                break
            begin = position + 4
            position = begin + length
            key = data[begin:position]
            (length,) = unpack(data, position)
            begin = position + 4
            if length < 0:
                if length != _NO_SIZE:
                    raise damaged(
                        file, f"the record at byte {record} has a value of {length} bytes"
                    )
                position = begin
                yield delete, key, b""
                continue
            position = begin + length
            if position > size:
                raise damaged(file, f"it ends within the record at byte {record}")
            yield put, key, data[begin:position]
    except struct.error as problem:
        raise damaged(file, f"it ends within the record at byte {record}") from problem
    if length != _NO_SIZE:
        raise damaged(file, f"the record at byte {record} has a key of {length} bytes")
    _require_end(data, position + 4, file)


def typed_records(data: bytes, file: str, position: int = 0) -> Changes:
    """Yields the typed records from `position` on; raises CorruptDataError at damage."""
    unpack = _INT.unpack_from
    put, delete, merge = ChangeKind.PUT, ChangeKind.DELETE, ChangeKind.MERGE
    size = len(data)
    record = position
    try:
        while True:
            record = position
            kind = data[position]
            if kind == _END:
                break
            (length,) = unpack(data, position + 1)
            begin = position + 5
            position = begin + length
            key = data[begin:position]
            (value_length,) = unpack(data, position)
            begin = position + 4
            if length < 0:
                raise damaged(file, f"the record at byte {record} has a key of {length} bytes")
            if kind == delete:
                if value_length != _NO_SIZE:
                    raise damaged(file, f"the deletion at byte {record} has a value")
                position = begin
                yield delete, key, b""
                continue
            position = begin + value_length
            if value_length < 0 or position > size:
                raise damaged(file, f"it ends within the record at byte {record}")
            if kind == put:
                yield put, key, data[begin:position]
            elif kind == merge:
                yield merge, key, data[begin:position]
            else:
                raise damaged(file, f"the record at byte {record} is of the unknown kind {kind}")
    except (struct.error, IndexError) as problem:
        raise damaged(file, f"it ends within the record at byte {record}") from problem
    _require_end(data, position + 1, file)


def _require_end(data: bytes, position: int, file: str) -> None:
    """Refuses bytes behind the end mark: a flipped size would hide the records behind it."""
    if position != len(data):
        raise damaged(file, f"{len(data) - position} bytes follow its end mark at byte {position}")
