"""Codecs of values in Avro's binary form, by the Avro schemas that Spark makes for state.

A field of a struct is a union of null and its type, except `void`, which has no bytes. So are
structs, arrays and maps anywhere within another type; scalars within arrays and maps cannot be
null. Decimals are `fixed` of the fewest bytes for their precision, maps have strings as keys.
Numbers are zigzag varints. Readers raise ValueError, IndexError or struct.error for bytes that
Spark does not write; writers as in `unsafe_slots`.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from queryable_state.server.native_state.rows.spark_types import (
    SparkKind,
    SparkType,
    UnsupportedTypeError,
)
from queryable_state.server.native_state.rows.type_infos import given, row_type_of
from queryable_state.server.native_state.rows.unsafe_slots import (
    FixedSlot,
    VariableSlot,
    scalar_slot,
)
from queryable_state.wire.errors import SerializationError
from queryable_state.wire.rows import row_values
from queryable_state.wire.values import scalars

if TYPE_CHECKING:
    from collections.abc import Sequence

Read = Callable[[bytes, int], tuple[Any, int]]
"""Function from bytes and the offset of a value to the value and the offset of its end."""
Write = Callable[[Any], bytes]

_NULL, _VALUE = b"\x00", b"\x02"
_END = b"\x00"
_INTS = (SparkKind.INTEGER, SparkKind.DATE)
_LONGS = (SparkKind.LONG, SparkKind.TIMESTAMP, SparkKind.TIMESTAMP_NTZ)
_NESTED = (SparkKind.STRUCT, SparkKind.ARRAY, SparkKind.MAP)


def read_long(data: bytes, offset: int) -> tuple[int, int]:
    """The number at an offset and the offset of its end."""
    number = shift = 0
    while True:
        byte = data[offset]
        offset += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
        if shift > 63:
            raise ValueError("a number has more than 64 bits")
    number = number >> 1 ^ -(number & 1)
    if not -(1 << 63) <= number < 1 << 63:
        raise ValueError("a number has more than 64 bits")
    return number, offset


def write_long(number: int) -> bytes:
    """A number of 64 bits, in as few bytes as possible."""
    if not -(1 << 63) <= number < 1 << 63:
        raise ValueError(f"{number} needs more than 64 bits")
    number = number << 1 ^ number >> 63
    data = bytearray()
    while number & ~0x7F:
        data.append(number & 0x7F | 0x80)
        number >>= 7
    data.append(number)
    return bytes(data)


def read_bytes(data: bytes, offset: int) -> tuple[bytes, int]:
    """The bytes at an offset, which their length precedes, and the offset of their end."""
    length, offset = read_long(data, offset)
    end = offset + length
    if length < 0 or end > len(data):
        raise ValueError(f"{length} bytes at {offset} go beyond the end")
    return data[offset:end], end


def write_bytes(content: bytes) -> bytes:
    """Bytes behind their length."""
    return write_long(len(content)) + content


def struct_codec(struct_type: SparkType) -> tuple[Read, Callable[[Sequence[Any]], bytes]]:
    """Reader and writer of a record, without the union around one that is nested.

    Raises UnsupportedTypeError for types that Spark cannot store as Avro.
    """
    codecs = [_field(field.type) for field in struct_type.fields]

    def read(data: bytes, offset: int) -> tuple[tuple[Any, ...], int]:
        values = []
        for read_field, _ in codecs:
            value, offset = read_field(data, offset)
            values.append(value)
        return tuple(values), offset

    def write(values: Sequence[Any]) -> bytes:
        return b"".join(
            [write_field(value) for (_, write_field), value in zip(codecs, values, strict=True)]
        )

    return read, write


def _field(spark_type: SparkType) -> tuple[Read, Write]:
    if spark_type.kind == SparkKind.VOID:
        return (lambda _, offset: (None, offset)), _no_bytes
    return nullable(*_value(spark_type))


def _no_bytes(value: object) -> bytes:
    if value is not None:
        raise ValueError(f"a void is null, not {value!r}")
    return b""


def nullable(read_value: Read, write_value: Write) -> tuple[Read, Write]:
    """The codec of a union of null and a type, in this order."""

    def read(data: bytes, offset: int) -> tuple[Any, int]:
        branch = data[offset]
        if branch == _VALUE[0]:
            return read_value(data, offset + 1)
        if branch != _NULL[0]:
            raise ValueError(f"a union has no branch {branch}")
        return None, offset + 1

    def write(value: Any) -> bytes:
        return _NULL if value is None else _VALUE + write_value(value)

    return read, write


def _element(spark_type: SparkType) -> tuple[Read, Write]:
    """The codec of an element of an array or a value of a map."""
    return _field(spark_type) if spark_type.kind in _NESTED else _value(spark_type)


def _value(spark_type: SparkType) -> tuple[Read, Write]:
    kind = spark_type.kind
    match kind:
        case SparkKind.STRUCT:
            read, write = struct_codec(spark_type)
            values_of = row_values(row_type_of(spark_type), "field", SerializationError)
            return read, lambda value: write(values_of(value))
        case SparkKind.ARRAY:
            return _array(*_element(given(spark_type.element)))
        case SparkKind.MAP if given(spark_type.key).kind == SparkKind.STRING:
            return _map(*_element(given(spark_type.element)))
        case SparkKind.STRING | SparkKind.BINARY:
            slot = scalar_slot(spark_type)
            assert isinstance(slot, VariableSlot)
            return _bytes(slot.decode, slot.encode)
        case SparkKind.DECIMAL:
            return _decimal(spark_type.precision, spark_type.scale)
        case SparkKind.BOOLEAN:
            return _native("?", scalar_slot(spark_type))
        case SparkKind.FLOAT | SparkKind.DOUBLE:
            return _native("f" if kind == SparkKind.FLOAT else "d", scalar_slot(spark_type))
        case _ if kind in _INTS:
            return _integer(scalar_slot(spark_type), 32)
        case _ if kind in _LONGS:
            return _integer(scalar_slot(spark_type), 64)
        case _:
            raise UnsupportedTypeError(f"Spark does not store type {spark_type} as Avro")


def _bytes(of_bytes: Callable[[Any], Any], to_bytes: Callable[[Any], Any]) -> tuple[Read, Write]:
    def read(data: bytes, offset: int) -> tuple[Any, int]:
        content, end = read_bytes(data, offset)
        return of_bytes(content), end

    return read, lambda value: write_bytes(to_bytes(value))


def _integer(slot: Any, bits: int) -> tuple[Read, Write]:
    decode, encode, bound = slot.decode, slot.encode, 1 << (bits - 1)

    def read(data: bytes, offset: int) -> tuple[Any, int]:
        number, end = read_long(data, offset)
        if not -bound <= number < bound:
            raise ValueError(f"{number} needs more than {bits} bits")
        return number if decode is None else decode(number), end

    def write(value: Any) -> bytes:
        number = encode(value)
        if not -bound <= number < bound:
            raise ValueError(f"{number} needs more than {bits} bits")
        return write_long(number)

    return read, write


def _native(char: str, slot: Any) -> tuple[Read, Write]:
    assert isinstance(slot, FixedSlot)
    native, encode = struct.Struct(f"<{char}"), slot.encode
    assert encode is not None

    def read(data: bytes, offset: int) -> tuple[Any, int]:
        return native.unpack_from(data, offset)[0], offset + native.size

    return read, lambda value: native.pack(encode(value))


def _decimal(precision: int, scale: int) -> tuple[Read, Write]:
    unscaled = partial(scalars.unscaled_of, precision=precision, scale=scale)
    # The fewest bytes whose signed numbers include all of so many digits.
    size = ((10**precision - 1).bit_length() + 1 + 7) // 8

    def read(data: bytes, offset: int) -> tuple[Any, int]:
        end = offset + size
        if end > len(data):
            raise ValueError(f"a decimal at {offset} goes beyond the end")
        number = int.from_bytes(data[offset:end], "big", signed=True)
        return scalars.decimal_of(number, precision, scale), end

    return read, lambda value: unscaled(value).to_bytes(size, "big", signed=True)


def _items(data: bytes, offset: int, read_item: Callable[[bytes, int], int]) -> int:
    """Reads the blocks of an array or map; returns the offset of their end."""
    while True:
        count, offset = read_long(data, offset)
        if count < 0:
            count = -count
            _, offset = read_long(data, offset)
        if count == 0:
            return offset
        if count > len(data):
            raise ValueError(f"a block of {count} items goes beyond the end")
        for _ in range(count):
            offset = read_item(data, offset)


def _array(read_element: Read, write_element: Write) -> tuple[Read, Write]:
    def read(data: bytes, offset: int) -> tuple[Any, int]:
        values: list[Any] = []

        def item(data: bytes, offset: int) -> int:
            value, end = read_element(data, offset)
            values.append(value)
            return end

        return values, _items(data, offset, item)

    def write(elements: Any) -> bytes:
        if isinstance(elements, (str, bytes, dict)):
            raise TypeError(f"needs a list, not {type(elements).__name__}")
        if not elements:
            return _END
        return write_long(len(elements)) + b"".join(map(write_element, elements)) + _END

    return read, write


def _map(read_value: Read, write_value: Write) -> tuple[Read, Write]:
    def read(data: bytes, offset: int) -> tuple[Any, int]:
        found: dict[str, Any] = {}
        entries = 0

        def item(data: bytes, offset: int) -> int:
            nonlocal entries
            key, offset = read_bytes(data, offset)
            found[key.decode()], offset = read_value(data, offset)
            entries += 1
            return offset

        end = _items(data, offset, item)
        if len(found) < entries:
            raise ValueError("a map has the same key twice")
        return found, end

    def write(entries: Any) -> bytes:
        if not entries:
            return _END
        items = [write_bytes(key.encode()) + write_value(each) for key, each in entries.items()]
        return write_long(len(items)) + b"".join(items) + _END

    return read, write
