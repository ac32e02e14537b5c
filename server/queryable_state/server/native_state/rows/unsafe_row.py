"""Codec of Spark's `UnsafeRow`, the form of rows in its state stores.

    null bits, in words of 8 bytes | a slot of 8 bytes for each field | bytes of variable values

All numbers are little-endian. Variable values start at multiples of 8 and are padded with zeros.
Offsets count from the beginning of the row. Spark looks keys up by their bytes: an encoded row has
exactly the bytes that Spark's projections write.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

from queryable_state.server.native_state.rows.spark_types import SparkKind, SparkType
from queryable_state.server.native_state.rows.type_infos import row_type_of
from queryable_state.server.native_state.rows.unsafe_collections import array_slot, map_slot
from queryable_state.server.native_state.rows.unsafe_slots import (
    FixedSlot,
    Slot,
    VariableSlot,
    scalar_slot,
)
from queryable_state.wire.errors import CorruptDataError, SerializationError
from queryable_state.wire.rows import row_values

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from queryable_state.wire.schema.type_model import TypeInfo

WORD = 8
SIZE_MASK = 0xFFFFFFFF
_PADDING = b"\x00" * (WORD - 1)


class UnsafeRowCodec:
    """A `RowCodec` of UnsafeRows, without the version byte that state stores put before them."""

    __slots__ = ("_decode", "_encode", "_values_of", "row_type", "struct")

    def __init__(self, struct_type: SparkType) -> None:
        self.struct = struct_type
        self.row_type: TypeInfo = row_type_of(struct_type)
        slots = [slot_of(field.type) for field in struct_type.fields]
        self._decode = _decoder(slots)
        self._encode = _encoder(slots)
        self._values_of = row_values(self.row_type, "row", SerializationError)

    def decode(self, data: bytes) -> tuple[Any, ...]:
        """The values of the fields; raises CorruptDataError for bytes that are no such row."""
        try:
            return self._decode(data)
        except (ValueError, struct.error) as problem:
            raise CorruptDataError(
                f"{len(data)} bytes are no row of {self.struct}: {problem}"
            ) from None

    def encode(self, values: Sequence[Any]) -> bytes:
        """The bytes that Spark writes for these values; raises SerializationError for others."""
        try:
            return self._encode(self._values_of(values))
        except (TypeError, ValueError, OverflowError, struct.error) as problem:
            if isinstance(problem, SerializationError):
                raise
            raise SerializationError(f"the values are no row of {self.struct}: {problem}") from None


def unsafe_row_codec(struct_type: SparkType) -> UnsafeRowCodec:
    """The codec of the UnsafeRows of a struct."""
    return UnsafeRowCodec(struct_type)


def slot_of(spark_type: SparkType) -> Slot:
    """The codec of a type within a row or array; raises UnsupportedTypeError."""
    match spark_type.kind:
        case SparkKind.STRUCT:
            slots = [slot_of(field.type) for field in spark_type.fields]
            values_of = row_values(row_type_of(spark_type), "field", SerializationError)
            encode = _encoder(slots)
            return VariableSlot(_decoder(slots), lambda value: encode(values_of(value)))
        case SparkKind.ARRAY:
            return array_slot(spark_type, slot_of)
        case SparkKind.MAP:
            return map_slot(spark_type, slot_of)
        case _:
            return scalar_slot(spark_type)


def null_words(fields: int) -> int:
    """Bytes of the null bits of so many fields or elements."""
    return (fields + 63) // 64 * WORD


def slot_format(slot: Slot) -> str:
    """The `struct` format of a slot in a row: always 8 bytes."""
    if isinstance(slot, VariableSlot):
        return "Q"
    rest = WORD - struct.calcsize(f"<{slot.char}")
    return f"{slot.char}{rest}x" if rest else slot.char


def _decoder(slots: Sequence[Slot]) -> Callable[[bytes], tuple[Any, ...]]:
    width, bits = len(slots), null_words(len(slots))
    native = struct.Struct(f"<{bits}s{''.join(map(slot_format, slots))}")
    unpack, fixed = native.unpack_from, native.size
    no_nulls = bytes(bits)
    variables = [(i, each.decode) for i, each in enumerate(slots) if isinstance(each, VariableSlot)]
    converted = [
        (i, each.decode)
        for i, each in enumerate(slots)
        if isinstance(each, FixedSlot) and each.decode is not None
    ]

    def decode(data: bytes) -> tuple[Any, ...]:
        nulls, *values = unpack(data)
        length = len(data)
        if length % WORD:
            raise ValueError("its length is no multiple of 8")
        if nulls != no_nulls:
            return decode_with_nulls(data, int.from_bytes(nulls, "little"), values)
        for position, convert in variables:
            start = values[position] >> 32
            end = start + (values[position] & SIZE_MASK)
            if start < fixed or end > length:
                raise ValueError(f"field {position} is outside of the row")
            values[position] = convert(data[start:end])
        for position, convert in converted:
            values[position] = convert(values[position])
        return tuple(values)

    def decode_with_nulls(data: bytes, nulls: int, values: list[Any]) -> tuple[Any, ...]:
        if nulls >> width:
            raise ValueError("it has more nulls than fields")
        for position, convert in variables:
            if not nulls >> position & 1:
                start = values[position] >> 32
                end = start + (values[position] & SIZE_MASK)
                if start < fixed or end > len(data):
                    raise ValueError(f"field {position} is outside of the row")
                values[position] = convert(data[start:end])
        for position, convert in converted:
            if not nulls >> position & 1:
                values[position] = convert(values[position])
        return tuple(None if nulls >> i & 1 else value for i, value in enumerate(values))

    return decode


def _encoder(slots: Sequence[Slot]) -> Callable[[Sequence[Any]], bytes]:
    bits = null_words(len(slots))
    native = struct.Struct(f"<{bits}s{''.join(map(slot_format, slots))}")
    pack, fixed = native.pack, native.size
    plan = list(enumerate(slots))

    def encode(values: Sequence[Any]) -> bytes:
        nulls, cursor = 0, fixed
        placed: list[Any] = []
        parts = [b""]
        for position, slot in plan:
            value = values[position]
            if isinstance(slot, FixedSlot):
                if value is None:
                    nulls |= 1 << position
                    placed.append(0)
                else:
                    placed.append(value if slot.encode is None else slot.encode(value))
                continue
            if value is None:
                nulls |= 1 << position
                content, size = bytes(slot.reserved), slot.null_size
                placed.append(cursor << 32 | size if slot.reserved else 0)
            else:
                content = slot.encode(value)
                placed.append(cursor << 32 | len(content))
            content = padded(content, slot.reserved)
            parts.append(content)
            cursor += len(content)
        parts[0] = pack(nulls.to_bytes(bits, "little"), *placed)
        return b"".join(parts)

    return encode


def padded(content: bytes, least: int = 0) -> bytes:
    """The bytes with zeros up to the next multiple of 8, and up to `least` bytes."""
    content += _PADDING[: -len(content) % WORD]
    return content if len(content) >= least else content.ljust(least, b"\x00")
