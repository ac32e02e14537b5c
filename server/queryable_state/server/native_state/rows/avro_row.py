"""Rows in Avro form, which Spark writes if `spark.sql.streaming.stateStore.encodingFormat` is avro.

    schema id (2) | Avro record of the schema with this id

The id is little-endian. Values of older schemas are read as the newest one: fields are found by
name, a field that the row lacks is null. The row before a prefix scan's others has no id.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

from queryable_state.server.native_state.rows.avro_values import (
    nullable,
    read_bytes,
    struct_codec,
    write_bytes,
)
from queryable_state.server.native_state.rows.range_columns import RangeColumn
from queryable_state.server.native_state.rows.type_infos import row_type_of
from queryable_state.wire.errors import CorruptDataError, QueryableStateError, SerializationError
from queryable_state.wire.rows import row_values
from queryable_state.wire.values.evolution import adapter

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from queryable_state.server.native_state.rows.key_encoder import KeyRows
    from queryable_state.server.native_state.rows.spark_types import SparkType
    from queryable_state.wire.schema.type_model import TypeInfo

_ID = struct.Struct("<h")
_DAMAGE = (ValueError, IndexError, struct.error)
_WRONG = (TypeError, ValueError, OverflowError, AttributeError, struct.error)


class AvroRecordCodec:
    """A `RowCodec` of Avro records without schema id."""

    def __init__(self, struct_type: SparkType) -> None:
        self.struct = struct_type
        self.row_type: TypeInfo = row_type_of(struct_type)
        self._read, self._write = struct_codec(struct_type)
        self._values_of = row_values(self.row_type, "row", SerializationError)

    def decode(self, data: bytes) -> tuple[Any, ...]:
        """The values of the fields; raises CorruptDataError for bytes that are no such row."""
        try:
            values, end = self._read(data, 0)
        except _DAMAGE as problem:
            raise CorruptDataError(
                f"{len(data)} bytes are no Avro record of {self.struct}: {problem}"
            ) from None
        if end != len(data):
            raise CorruptDataError(
                f"{len(data) - end} bytes follow an Avro record of {self.struct}"
            )
        found: tuple[Any, ...] = values
        return found

    def encode(self, values: Sequence[Any]) -> bytes:
        """The bytes that Spark writes for these values; raises SerializationError for others."""
        try:
            return self._write(self._values_of(values))
        except QueryableStateError:
            raise
        except _WRONG as problem:
            raise SerializationError(f"the values are no row of {self.struct}: {problem}") from None


class AvroRowCodec:
    """A `RowCodec` of rows with schema ids, without the version byte before them."""

    def __init__(self, schemas: Mapping[int, SparkType], newest: int) -> None:
        """`schemas` are all structs of the rows by id; `newest` is the id of the current one.

        Raises JobError if an older schema cannot be read as the newest one.
        """
        self._newest = newest
        self.struct = schemas[newest]
        self.row_type: TypeInfo = row_type_of(self.struct)
        self._codecs = {number: AvroRecordCodec(each) for number, each in schemas.items()}
        self._adapters = {
            number: adapter(codec.row_type, self.row_type) for number, codec in self._codecs.items()
        }

    def decode(self, data: bytes) -> tuple[Any, ...]:
        """The values of the newest schema; raises CorruptDataError for other bytes."""
        if len(data) < _ID.size:
            raise CorruptDataError(f"an Avro row of {len(data)} bytes has no schema id")
        (number,) = _ID.unpack_from(data)
        codec = self._codecs.get(number)
        if codec is None:
            raise CorruptDataError(
                f"an Avro row has the schema id {number}, known are {sorted(self._codecs)}"
            )
        values = codec.decode(data[_ID.size :])
        adapt = self._adapters[number]
        return values if adapt is None else tuple(adapt(values))

    def encode(self, values: Sequence[Any]) -> bytes:
        """The bytes that Spark writes for these values; raises SerializationError for others."""
        return _ID.pack(self._newest) + self._codecs[self._newest].encode(values)


def avro_row_codec(schemas: Mapping[int, SparkType], newest: int) -> AvroRowCodec:
    """The codec of rows, without version byte, whose schemas are these by id."""
    return AvroRowCodec(schemas, newest)


class AvroForm:
    """A `RowForm` of Avro rows of keys with one schema id."""

    def __init__(self, schema_id: int) -> None:
        self._schema_id = schema_id

    def whole(self, struct: SparkType) -> KeyRows:
        """Rows of whole keys, and of the columns behind a prefix."""
        return avro_row_codec({self._schema_id: struct}, self._schema_id)

    def prefix(self, struct: SparkType) -> KeyRows:
        """Rows of the columns before others."""
        return AvroRecordCodec(struct)

    def ordering(self, struct: SparkType) -> KeyRows:
        """Rows of numbers that compare as bytes; raises UnsupportedTypeError for other types."""
        return _OrderingRecords(struct)


class _OrderingRecords:
    """Avro records with two fields of bytes for each number: its marker, and its bytes."""

    def __init__(self, struct_type: SparkType) -> None:
        self._columns = [RangeColumn(field.type) for field in struct_type.fields]
        self._read, self._write = nullable(read_bytes, write_bytes)

    def encode(self, values: Sequence[Any]) -> bytes:
        """The bytes of these numbers; raises SerializationError for other values."""
        try:
            parts = [
                column.encode(value) for column, value in zip(self._columns, values, strict=True)
            ]
        except _WRONG as problem:
            raise SerializationError(f"{values!r} are no ordering columns: {problem}") from None
        return b"".join([self._write(part[:1]) + self._write(part[1:]) for part in parts])

    def decode(self, data: bytes) -> tuple[Any, ...]:
        """The numbers of the bytes; raises CorruptDataError for others."""
        values = []
        end = 0
        try:
            for column in self._columns:
                marker, end = self._read(data, end)
                number, end = self._read(data, end)
                values.append(column.decode(marker + number))
        except (*_DAMAGE, TypeError) as problem:
            raise CorruptDataError(f"{data.hex()} are no ordering columns: {problem}") from None
        if end != len(data):
            raise CorruptDataError(f"{len(data) - end} bytes follow ordering columns")
        return tuple(values)
