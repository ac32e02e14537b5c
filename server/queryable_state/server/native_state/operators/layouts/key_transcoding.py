"""Transcoding between encoded keys and UnsafeRows of the same columns, without values of Python.

It does what `KeyColumns` and the codec of UnsafeRows do together, for keys of strings, binary,
booleans, integers, dates, timestamps and structs of these. Every column is nullable: in the encoded
key it is 00 for a null, else 01 and its bytes.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from queryable_state.server.native_state.rows.spark_types import SparkKind
from queryable_state.server.native_state.rows.unsafe_row import SIZE_MASK, WORD, null_words
from queryable_state.wire.errors import CorruptDataError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from queryable_state.server.native_state.rows.spark_types import SparkField, SparkType

_NULL, _NOT_NULL = b"\x00", b"\x01"
_ZERO, _ESCAPED, _END = b"\x00", b"\x00\xff", b"\x00\x01"
# Bytes of a column, and the bit that is flipped so that bytes compare as numbers.
_FIXED = {
    SparkKind.BOOLEAN: (1, 0),
    SparkKind.BYTE: (1, 1 << 7),
    SparkKind.SHORT: (2, 1 << 15),
    SparkKind.INTEGER: (4, 1 << 31),
    SparkKind.DATE: (4, 1 << 31),
    SparkKind.YEAR_MONTH_INTERVAL: (4, 1 << 31),
    SparkKind.LONG: (8, 1 << 63),
    SparkKind.TIMESTAMP: (8, 1 << 63),
    SparkKind.TIMESTAMP_NTZ: (8, 1 << 63),
    SparkKind.DAY_TIME_INTERVAL: (8, 1 << 63),
}
_TEXTS = (SparkKind.STRING, SparkKind.BINARY)


class KeyTranscoder:
    """Transcoder of the keys of some columns. Immutable.

    Methods raise CorruptDataError for bytes that are no key or no row of the columns.
    """

    __slots__ = ("_columns", "_fixed_bytes", "_null_bytes", "_row")

    def __init__(self, columns: Sequence[SparkType]) -> None:
        """`is_transcodable` is true for each of the columns."""
        self._columns: list[tuple[int, int, KeyTranscoder | None]] = []
        for column in columns:
            width, sign = _FIXED.get(column.kind, (0, 0))
            inner = None
            if column.kind == SparkKind.STRUCT:
                inner = KeyTranscoder([field.type for field in column.fields])
            self._columns.append((width, sign, inner))
        self._null_bytes = null_words(len(columns))
        self._row = struct.Struct(f"<{self._null_bytes}s{len(columns)}Q")
        self._fixed_bytes = self._row.size

    @property
    def width(self) -> int:
        """Number of columns."""
        return len(self._columns)

    def row(self, data: bytes, offset: int) -> tuple[bytes, int]:
        """The row of the encoded key at `offset`, and the end of the key."""
        nulls, place = 0, self._fixed_bytes
        slots: list[int] = []
        tail: list[bytes] = []
        for position, (width, sign, inner) in enumerate(self._columns):
            marker = data[offset : offset + 1]
            offset += 1
            if marker != _NOT_NULL:
                if marker != _NULL:
                    raise _no_key(data)
                nulls |= 1 << position
                slots.append(0)
            elif width:
                slots.append(int.from_bytes(data[offset : offset + width]) ^ sign)
                offset += width
            else:
                if inner is not None:
                    content, offset = inner.row(data, offset)
                else:
                    content, offset = _text(data, offset)
                size = len(content)
                slots.append(place << 32 | size)
                padding = -size % WORD
                tail.append(content + bytes(padding) if padding else content)
                place += size + padding
        if offset > len(data):
            raise _no_key(data)
        fixed = self._row.pack(nulls.to_bytes(self._null_bytes, "little"), *slots)
        return (fixed + b"".join(tail) if tail else fixed), offset

    def key(self, row: bytes) -> bytes:
        """The encoded key of a row."""
        try:
            null_bits, *slots = self._row.unpack_from(row)
        except struct.error as problem:
            raise CorruptDataError(f"{len(row)} bytes are no row of a key: {problem}") from None
        nulls = int.from_bytes(null_bits, "little")
        parts: list[bytes] = []
        for position, (width, sign, inner) in enumerate(self._columns):
            slot = slots[position]
            if nulls >> position & 1:
                parts.append(_NULL)
            elif width:
                number = (slot & (1 << 8 * width) - 1) ^ sign
                parts.append(_NOT_NULL + number.to_bytes(width))
            else:
                start = slot >> 32
                end = start + (slot & SIZE_MASK)
                if start < self._fixed_bytes or end > len(row):
                    raise CorruptDataError(f"column {position} is outside of the row of a key")
                content = row[start:end]
                if inner is not None:
                    parts.append(_NOT_NULL + inner.key(content))
                else:
                    parts.append(_NOT_NULL + content.replace(_ZERO, _ESCAPED) + _END)
        return b"".join(parts)


def key_transcoder(fields: Sequence[SparkField]) -> KeyTranscoder | None:
    """The transcoder of the keys of these columns; None if one has another type, or for none."""
    columns = [field.type for field in fields]
    return KeyTranscoder(columns) if columns and all(map(is_transcodable, columns)) else None


def is_transcodable(column: SparkType) -> bool:
    """True if a key may have this column and be transcoded."""
    if column.kind == SparkKind.STRUCT:
        return all(is_transcodable(field.type) for field in column.fields)
    return column.kind in _FIXED or column.kind in _TEXTS


def _text(data: bytes, offset: int) -> tuple[bytes, int]:
    """The text at `offset` without escapes, and the offset behind its end."""
    end = data.find(_END, offset)
    if end < 0:
        raise _no_key(data)
    content = data[offset:end]
    if _ZERO in content:
        content = content.replace(_ESCAPED, _ZERO)
    return content, end + len(_END)


def _no_key(data: bytes) -> CorruptDataError:
    return CorruptDataError(f"{data[:64].hex()} is no whole key of the columns of a state")
