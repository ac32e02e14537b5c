"""Raw values of Spark's state stores: one row, or the rows that were appended to a key.

    one row         version (1) | row
    several         [size (4) | version (1) | row], with the store's delimiter between them

With row checksums, the row or each of the several has the checksum (4) and the size (4) of what
follows in front. Numbers are little-endian. Checksums are verified when a file is read, not here.
"""

from __future__ import annotations

import struct
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from queryable_state.server.native_state.operators.layouts.row_values import (
    RowValues,
    is_primitive,
    values_of_columns,
)
from queryable_state.server.native_state.rows.key_encoder import without_version
from queryable_state.server.native_state.rows.transcoding import field_transcoder, row_transcoder
from queryable_state.server.native_state.rows.unsafe_row import SIZE_MASK, unsafe_row_codec
from queryable_state.wire.errors import CorruptDataError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from queryable_state.server.native_state.operators.layouts.key_columns import Columns
    from queryable_state.server.native_state.rows.row_codec import RowCodec
    from queryable_state.server.native_state.rows.spark_types import SparkType
    from queryable_state.wire.schema.type_model import Field

_SIZE = struct.Struct("<i")
_CHECKSUM_AND_SIZE = 8
_EXPIRING = struct.Struct("<QQq")
_NOT_NULL = b"\x00"


@dataclass(frozen=True, slots=True)
class Framing:
    """The bytes around the rows within a stored value: delimiters and checksums."""

    delimiter_bytes: int = 0
    """Bytes between two of several rows."""
    has_checksums: bool = False

    def one(self, raw_value: bytes) -> bytes:
        """The row of a raw value of one row."""
        return without_version(raw_value[_CHECKSUM_AND_SIZE:] if self.has_checksums else raw_value)

    def several(self, raw_value: bytes) -> list[bytes]:
        """The rows of a raw value of several rows."""
        rows: list[bytes] = []
        skipped = (_CHECKSUM_AND_SIZE if self.has_checksums else 0) + _SIZE.size
        position, end = 0, len(raw_value)
        while position < end:
            begin = position + skipped
            if begin > end:
                raise CorruptDataError(f"a value of {end} bytes ends within the size of a row")
            position = begin + _SIZE.unpack_from(raw_value, begin - _SIZE.size)[0]
            if not begin < position <= end:
                raise CorruptDataError(f"a value of {end} bytes ends within a row")
            rows.append(without_version(raw_value[begin:position]))
            position += self.delimiter_bytes
        return rows


class StoredRows(ABC):
    """Reader of the raw values of one column family. Immutable.

    What a row is depends on its encoding; `columns` and the returned `RowValues` take it.
    """

    fields: tuple[Field, ...]

    @abstractmethod
    def row(self, raw_value: bytes) -> Any:
        """The row of a raw value of one row."""

    @abstractmethod
    def rows(self, raw_value: bytes) -> list[Any]:
        """The rows of a raw value of several rows."""

    @abstractmethod
    def columns(self, row: Any) -> Columns:
        """Decodes a stored value into the values of all its fields."""

    @abstractmethod
    def values(self, positions: Sequence[int] | None = None) -> RowValues:
        """The encoder of these fields of a row as a value; None: of all."""

    @abstractmethod
    def expiring(self, row: Any) -> tuple[Any, int]:
        """Inner row and time of expiry of a row of these two fields."""

    @abstractmethod
    def expiring_values(self) -> RowValues:
        """The encoder of the inner rows of `expiring`."""


class UnsafeStoredRows(StoredRows):
    """Rows are the bytes of UnsafeRows, which become values without values of Python between."""

    def __init__(self, struct_type: SparkType, framing: Framing) -> None:
        self._struct = struct_type
        self._framing = framing
        self._codec = unsafe_row_codec(struct_type)
        self.fields = self._codec.row_type.fields

    def row(self, raw_value: bytes) -> bytes:
        return self._framing.one(raw_value)

    def rows(self, raw_value: bytes) -> list[bytes]:
        return self._framing.several(raw_value)

    def columns(self, row: bytes) -> Columns:
        return self._codec.decode(row)

    def values(self, positions: Sequence[int] | None = None) -> RowValues:
        positions = range(len(self.fields)) if positions is None else positions
        return _transcoded(self._struct, self.fields, positions)

    def expiring(self, row: bytes) -> tuple[bytes, int]:
        if len(row) < _EXPIRING.size:
            raise CorruptDataError(f"a row of {len(row)} bytes has no value and expiry")
        nulls, place, expiry_ms = _EXPIRING.unpack_from(row)
        start = place >> 32
        end = start + (place & SIZE_MASK)
        if nulls or not _EXPIRING.size <= start <= end <= len(row):
            raise CorruptDataError(f"a row of {len(row)} bytes has no value and expiry")
        return row[start:end], expiry_ms

    def expiring_values(self) -> RowValues:
        inner = self._struct.fields[0].type
        fields = self.fields[0].type.fields
        return _transcoded(inner, fields, range(len(fields)))


class DecodedStoredRows(StoredRows):
    """Rows are the columns of rows in another form, such as Avro, decoded by their codec."""

    def __init__(self, codec: RowCodec, framing: Framing) -> None:
        self._codec = codec
        self._framing = framing
        self.fields = codec.row_type.fields

    def row(self, raw_value: bytes) -> Columns:
        return self._codec.decode(self._framing.one(raw_value))

    def rows(self, raw_value: bytes) -> list[Columns]:
        return [self._codec.decode(row) for row in self._framing.several(raw_value)]

    def columns(self, row: Columns) -> Columns:
        return row

    def values(self, positions: Sequence[int] | None = None) -> RowValues:
        if positions is None:
            return values_of_columns(self.fields, tuple)
        chosen = list(positions)
        return values_of_columns(
            [self.fields[position] for position in chosen],
            lambda row: tuple(row[position] for position in chosen),
        )

    def expiring(self, row: Columns) -> tuple[Columns, int]:
        inner, expiry_ms = row
        if inner is None or expiry_ms is None:
            raise CorruptDataError("a row has no value or no expiry")
        return inner, expiry_ms

    def expiring_values(self) -> RowValues:
        return values_of_columns(self.fields[0].type.fields, tuple)


def _transcoded(
    struct_type: SparkType, fields: Sequence[Field], positions: Sequence[int]
) -> RowValues:
    chosen = [fields[position] for position in positions]
    whole = row_transcoder(struct_type, positions)
    if is_primitive(chosen):
        # A row of one field is null bits and the field, as a list of one is.
        return RowValues(chosen, field_transcoder(struct_type, positions[0]), whole)
    return RowValues(chosen, whole, lambda row: _NOT_NULL + whole(row))
