"""Transcoding of UnsafeRows into payloads of our values, without values of Python in between.

The payload (`wire.values.payload`) is that of the ROW which presents the struct, or chosen fields
of it: the bytes that `ValueCodec` writes for the decoded row, without the value's header. Bytes of
scalars are copied: whether text is UTF-8, and whether a time is within the years 1 to 9999, is
checked where the payload is decoded.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any

from queryable_state.server.native_state.rows.spark_types import (
    LONG_DIGITS,
    SparkKind,
    SparkType,
)
from queryable_state.server.native_state.rows.type_infos import (
    MICROSECOND_DIGITS,
    given,
    is_presented_as_map,
)
from queryable_state.server.native_state.rows.unsafe_row import SIZE_MASK, WORD, null_words
from queryable_state.server.native_state.rows.unsafe_slots import FixedSlot, scalar_slot
from queryable_state.wire.errors import CorruptDataError
from queryable_state.wire.values.scalars import shortest_bytes

Transcode = Callable[[bytes], bytes]
"""Makes the payload of a row or of the bytes of one value; raises CorruptDataError, or within this
module ValueError or struct.error, for bytes that Spark does not write."""

_U32 = struct.Struct("<I").pack
_COUNT = struct.Struct("<Q")
_LONG = struct.Struct("<q")
_VARIABLE = "Q"
_RAW = (SparkKind.STRING, SparkKind.BINARY)


def row_transcoder(struct_type: SparkType, positions: Sequence[int] | None = None) -> Transcode:
    """Returns a function from an UnsafeRow to the payload of a ROW of these fields (None: all)."""
    return _checked(_row(struct_type, positions), struct_type)


def field_transcoder(struct_type: SparkType, position: int) -> Callable[[bytes], bytes | None]:
    """Returns a function from an UnsafeRow to the payload of one field; None for a null."""
    kind = struct_type.fields[position].type.kind
    whole = _checked(_row(struct_type, [position]), struct_type)
    # A row of one field: its null bits, then the field, whose length a whole payload leaves out.
    start = 5 if kind in _RAW else 1

    def transcode(data: bytes) -> bytes | None:
        payload = whole(data)
        return None if payload == b"\x01" else payload[start:]

    return transcode


def _checked(transcode: Transcode, struct_type: SparkType) -> Transcode:
    def checked(data: bytes) -> bytes:
        try:
            return transcode(data)
        except (ValueError, struct.error) as problem:
            raise CorruptDataError(
                f"{len(data)} bytes are no row of {struct_type}: {problem}"
            ) from None

    return checked


def _row(struct_type: SparkType, positions: Sequence[int] | None = None) -> Transcode:
    fields = struct_type.fields
    chosen = list(range(len(fields)) if positions is None else positions)
    bits, ours = null_words(len(fields)), (len(chosen) + 7) // 8
    plans = [_plan(field.type) for field in fields]
    native = struct.Struct(f"<{bits}s{''.join(_slot_format(each) for each, _ in plans)}")
    unpack, fixed, no_nulls, valid = native.unpack_from, native.size, bytes(bits), bytes(ours)
    # Places in the result by position of the row; a field may be left out or chosen.
    converted = [
        (position, char == _VARIABLE, convert)
        for position, (char, convert) in enumerate(plans)
        if convert is not None and position in chosen
    ]
    in_order = chosen == list(range(len(fields)))

    def transcode(data: bytes) -> bytes:
        nulls, *values = unpack(data)
        length = len(data)
        if length % WORD:
            raise ValueError("its length is no multiple of 8")
        if nulls != no_nulls:
            return transcode_with_nulls(data, int.from_bytes(nulls, "little"), values)
        for position, variable, convert in converted:
            value = values[position]
            if variable:
                start = value >> 32
                end = start + (value & SIZE_MASK)
                if start < fixed or end > length:
                    raise ValueError(f"field {position} is outside of the row")
                value = data[start:end]
            values[position] = convert(value)
        if not in_order:
            values = [values[position] for position in chosen]
        return valid + b"".join(values)

    def transcode_with_nulls(data: bytes, nulls: int, values: list[Any]) -> bytes:
        if nulls >> len(fields):
            raise ValueError("it has more nulls than fields")
        for position, variable, convert in converted:
            if nulls >> position & 1:
                continue
            value = values[position]
            if variable:
                start = value >> 32
                end = start + (value & SIZE_MASK)
                if start < fixed or end > len(data):
                    raise ValueError(f"field {position} is outside of the row")
                value = data[start:end]
            values[position] = convert(value)
        bitmap = 0
        parts = []
        for place, position in enumerate(chosen):
            if nulls >> position & 1:
                bitmap |= 1 << place
            else:
                parts.append(values[position])
        return bitmap.to_bytes(ours, "little") + b"".join(parts)

    return transcode


Plan = tuple[str, "Callable[[Any], bytes] | None"]
"""`struct` format of a slot and the function from what is unpacked, or from the bytes of a variable
value, to its part of a payload; None: they are the same."""


def _plan(spark_type: SparkType) -> Plan:
    kind = spark_type.kind
    match kind:
        case SparkKind.STRING | SparkKind.BINARY:
            return _VARIABLE, _sized
        case SparkKind.DECIMAL if spark_type.precision > LONG_DIGITS:
            return _VARIABLE, _long_decimal
        case SparkKind.DECIMAL:
            return "q", _short_decimal
        case SparkKind.TIME if spark_type.precision <= MICROSECOND_DIGITS:
            return "q", _micros_of_nanos
        case SparkKind.VOID:
            return "q", _no_value
        case SparkKind.STRUCT:
            return _VARIABLE, _row(spark_type)
        case SparkKind.ARRAY:
            return _VARIABLE, _list(given(spark_type.element))
        case SparkKind.MAP:
            return _VARIABLE, _map(spark_type)
        case SparkKind.CALENDAR_INTERVAL:
            return _VARIABLE, _interval
        case SparkKind.TIMESTAMP_NANOS | SparkKind.TIMESTAMP_NTZ_NANOS:
            return _VARIABLE, _nanos
        case SparkKind.VARIANT:
            return _VARIABLE, _variant
        case _:
            slot = scalar_slot(spark_type)
            assert isinstance(slot, FixedSlot)
            return f"{struct.calcsize('<' + slot.char)}s", None


def _slot_format(form: str) -> str:
    """The format of a slot in a row: always 8 bytes."""
    rest = WORD - struct.calcsize("<" + form)
    return f"{form}{rest}x" if rest else form


def _sized(data: bytes) -> bytes:
    return _U32(len(data)) + data


def _short_decimal(unscaled: int) -> bytes:
    data = shortest_bytes(unscaled)
    return bytes((len(data),)) + data


def _long_decimal(data: bytes) -> bytes:
    if not 1 <= len(data) <= 16:
        raise ValueError(f"a decimal has {len(data)} bytes")
    return bytes((len(data),)) + data


def _micros_of_nanos(nanos: int) -> bytes:
    micros, rest = divmod(nanos, 1000)
    if rest:
        raise ValueError(f"{nanos} ns since midnight are more precise than the type")
    return _LONG.pack(micros)


def _no_value(_: int) -> bytes:
    raise ValueError("a void is not null")


def _interval(data: bytes) -> bytes:
    if len(data) != 16:
        raise ValueError(f"an interval has {len(data)} bytes")
    return b"\x00" + data


def _nanos(data: bytes) -> bytes:
    if len(data) != 16 or any(data[10:]):
        raise ValueError(f"a timestamp in nanoseconds is {data.hex()}")
    return b"\x00" + data[:10]


def _variant(data: bytes) -> bytes:
    end = 4 + int.from_bytes(data[:4], "little")
    if not 4 <= end <= len(data):
        raise ValueError("the value of a variant goes beyond its end")
    return b"\x00" + data[:end] + _sized(data[end:])


def _elements(element: SparkType) -> Callable[[bytes], tuple[list[Any], int]]:
    """A function from an array to the payloads of its elements and its null bits.

    The payload of a null means nothing.
    """
    form, convert = _plan(element)
    variable, size = form == _VARIABLE, struct.calcsize("<" + form)

    def read(data: bytes) -> tuple[list[Any], int]:
        (count,) = _COUNT.unpack_from(data)
        header = _COUNT.size + null_words(count)
        if header + count * size > len(data):
            raise ValueError(f"an array of {count} elements goes beyond its end")
        nulls = int.from_bytes(data[_COUNT.size : header], "little")
        if nulls >> count:
            raise ValueError("an array has more nulls than elements")
        if convert is None:
            end = header + count * size
            return [data[at : at + size] for at in range(header, end, size)], nulls
        values: list[Any] = list(struct.unpack_from(f"<{count}{form}", data, header))
        for position, value in enumerate(values):
            if nulls >> position & 1:
                continue
            if variable:
                start = value >> 32
                end = start + (value & SIZE_MASK)
                if start < header + count * size or end > len(data):
                    raise ValueError(f"element {position} is outside of its array")
                value = data[start:end]
            values[position] = convert(value)
        return values, nulls

    return read


def _list(element: SparkType) -> Transcode:
    read = _elements(element)

    def transcode(data: bytes) -> bytes:
        values, nulls = read(data)
        bitmap = nulls.to_bytes((len(values) + 7) // 8, "little")
        if nulls:
            return (
                _U32(len(values))
                + bitmap
                + b"".join([value for i, value in enumerate(values) if not nulls >> i & 1])
            )
        return _U32(len(values)) + bitmap + b"".join(values)

    return transcode


def _map(spark_map: SparkType) -> Transcode:
    read_keys, read_values = _elements(given(spark_map.key)), _elements(given(spark_map.element))
    as_map = is_presented_as_map(spark_map)

    def transcode(data: bytes) -> bytes:
        end = _COUNT.size + _COUNT.unpack_from(data)[0]
        if end > len(data):
            raise ValueError("the keys of a map go beyond its end")
        (keys, null_keys), (values, nulls) = (
            read_keys(data[_COUNT.size : end]),
            read_values(data[end:]),
        )
        if len(keys) != len(values) or null_keys or (as_map and len(set(keys)) < len(keys)):
            raise ValueError("a map has keys without values, or a key that is null or repeated")
        parts = [_U32(len(keys)), nulls.to_bytes((len(keys) + 7) // 8, "little")]
        if not as_map:
            parts[1] = bytes(len(parts[1]))
        for position, key in enumerate(keys):
            null = nulls >> position & 1
            if not as_map:
                parts.append(b"\x02" if null else b"\x00")
            parts.append(key)
            if not null:
                parts.append(values[position])
        return b"".join(parts)

    return transcode
