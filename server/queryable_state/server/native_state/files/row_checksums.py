"""Row checksums of Spark, if `spark.sql.streaming.stateStore.rowChecksum.enabled` is set.

A value of the RocksDB provider is, for each of its merged parts, a checksum, the size of the row
and the row, with the store's delimiter between parts. A value of the HDFS-backed provider is a
checksum and the row. The checksum is the CRC32C of the key and the row. In changes, the key of a
deletion begins with a checksum of its own. Numbers are little-endian.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING

import google_crc32c

from queryable_state.server.native_state.files.changes import ChangeKind
from queryable_state.server.native_state.files.outcomes import checksum_mismatch

if TYPE_CHECKING:
    from queryable_state.server.native_state.files.changes import Changes

_CHECKSUM = Struct("<I")
_SIZE = Struct("<i")
_PART = 8
_ROW = "a row does not have its checksum"


def verified_changes(changes: Changes, file: str, delimiter: bytes | None = None) -> Changes:
    """Yields the changes with plain keys; raises CorruptDataError at a row that is damaged.

    Values keep their checksums. `delimiter` is that of merged parts; None: the HDFS-backed
    provider, whose values have no parts.
    """
    for kind, key, value in changes:
        if kind is ChangeKind.DELETE:
            plain = key[_CHECKSUM.size :]
            _require(key[: _CHECKSUM.size], plain, b"", file)
            yield kind, plain, value
        else:
            if delimiter is None:
                row(key, value, file)
            else:
                rows(key, value, delimiter, file)
            yield kind, key, value


def rows(key: bytes, value: bytes, delimiter: bytes, file: str) -> list[bytes]:
    """The rows of a value of the RocksDB provider without their checksums, which are verified."""
    found = []
    position, size = 0, len(value)
    while position < size:
        begin = position + _PART
        if begin > size:
            raise checksum_mismatch(file, _ROW)
        (length,) = _SIZE.unpack_from(value, position + _CHECKSUM.size)
        row = value[begin : begin + length] if length >= 0 else b""
        if len(row) != length:
            raise checksum_mismatch(file, _ROW)
        _require(value[position : position + _CHECKSUM.size], key, row, file)
        found.append(row)
        position = begin + length + len(delimiter)
    return found


def row(key: bytes, value: bytes, file: str) -> bytes:
    """The row of a value of the HDFS-backed provider without its checksum, which is verified."""
    plain = value[_CHECKSUM.size :]
    _require(value[: _CHECKSUM.size], key, plain, file)
    return plain


def _require(checksum: bytes, key: bytes, row: bytes, file: str) -> None:
    if checksum != _CHECKSUM.pack(google_crc32c.value(key + row)):
        raise checksum_mismatch(file, _ROW)
