"""Codecs of the values in Spark's `UnsafeRow` and `UnsafeArrayData`, one a type.

A value of fixed width stands in its slot. The slot of any other value holds the offset and the
size of its bytes: `offset << 32 | size`. Decoders raise ValueError, which includes
UnicodeDecodeError, or struct.error for bytes that Spark does not write; encoders raise TypeError,
ValueError, OverflowError or struct.error for values of another type.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from operator import index
from typing import Any

from queryable_state.server.native_state.rows.spark_types import (
    LONG_DIGITS,
    SparkKind,
    SparkType,
    UnsupportedTypeError,
)
from queryable_state.server.native_state.rows.type_infos import MICROSECOND_DIGITS
from queryable_state.wire.values import scalars

Convert = Callable[[Any], Any]

RESERVED_BYTES = 16
"""Bytes of a long decimal and of an interval in a row, also of a null."""

_INTERVAL = struct.Struct("<iiq")
_NANOS = struct.Struct("<qq")
_SIZE = struct.Struct("<I")
_DAY_NANOS = 24 * 3600 * 1_000_000_000
_NANOS_OF_MICRO = 1000


@dataclass(frozen=True, slots=True)
class FixedSlot:
    """A value of fixed width."""

    char: str
    """`struct` format of the value; in a row the rest of its 8 bytes is zero."""
    decode: Convert | None = None
    """Makes the value of the number; None: they are the same."""
    encode: Convert | None = None


@dataclass(frozen=True, slots=True)
class VariableSlot:
    """A value of variable width: the slot holds offset and length of its bytes."""

    decode: Convert
    """Makes the value of its bytes."""
    encode: Convert
    reserved: int = 0
    """Bytes that a row has at least for the value, also for a null."""
    null_size: int = 0
    """The size that the slot of a null says, if bytes are reserved."""


Slot = FixedSlot | VariableSlot


def scalar_slot(spark_type: SparkType) -> Slot:
    """The codec of a type without parts; raises UnsupportedTypeError for other types."""
    kind = spark_type.kind
    if kind in _PLAIN:
        return _PLAIN[kind]
    match kind:
        case SparkKind.DECIMAL:
            return _decimal(spark_type.precision, spark_type.scale)
        case SparkKind.TIME:
            precise = spark_type.precision > MICROSECOND_DIGITS
            return FixedSlot("q", _nanos_of_day, _nanos_of_day) if precise else _TIME
        case SparkKind.TIMESTAMP_NANOS:
            return _nanos(scalars.instant_of, scalars.micros_of)
        case SparkKind.TIMESTAMP_NTZ_NANOS:
            return _nanos(scalars.wall_time_of, scalars.wall_micros_of)
        case _:
            raise UnsupportedTypeError(f"type {spark_type} of Spark is not supported")


def _boolean(value: object) -> bool:
    if value is True or value is False:
        return bool(value)
    raise TypeError(f"needs a bool, not {type(value).__name__}")


def _integer(value: Any) -> int:
    if value.__class__ is bool:
        raise TypeError("needs an int, not bool")
    return index(value)


def _number(value: Any) -> float:
    if value.__class__ is bool or not hasattr(value, "__float__"):
        raise TypeError(f"needs a float, not {type(value).__name__}")
    return float(value)


def _text(value: Any) -> bytes:
    if not isinstance(value, str):
        raise TypeError(f"needs a str, not {type(value).__name__}")
    return value.encode()


def _binary(value: Any) -> bytes:
    if not isinstance(value, (bytes, bytearray, memoryview)):
        raise TypeError(f"needs bytes, not {type(value).__name__}")
    return bytes(value)


def _no_value(value: object) -> Any:
    raise ValueError(f"a void is null, not {value!r}")


def _time_of_nanos(nanos: int) -> Any:
    micros, rest = divmod(nanos, _NANOS_OF_MICRO)
    if rest:
        raise ValueError(f"{nanos} ns since midnight are more precise than the type")
    return scalars.time_of(micros)


def _nanos_of_time(value: object) -> int:
    return scalars.time_micros_of(value) * _NANOS_OF_MICRO


def _nanos_of_day(value: object) -> int:
    nanos = _integer(value)
    if not 0 <= nanos < _DAY_NANOS:
        raise ValueError(f"{nanos} ns since midnight is not within one day")
    return nanos


def _decode_interval(data: bytes) -> tuple[int, int, int]:
    months, days, micros = _INTERVAL.unpack(data)
    return months, days, micros


def _encode_interval(value: Any) -> bytes:
    return _INTERVAL.pack(*map(_integer, fields_of(value, ("months", "days", "microseconds"))))


def _decode_variant(data: bytes) -> tuple[bytes, bytes]:
    (size,) = _SIZE.unpack_from(data)
    if size > len(data) - _SIZE.size:
        raise ValueError("the value of a variant goes beyond its end")
    end = _SIZE.size + size
    return data[_SIZE.size : end], data[end:]


def _encode_variant(value: Any) -> bytes:
    content, metadata = fields_of(value, ("value", "metadata"))
    return _SIZE.pack(len(content)) + _binary(content) + _binary(metadata)


def fields_of(value: Any, names: tuple[str, ...]) -> tuple[Any, ...]:
    """The values of a row, given as a sequence or by names."""
    values = tuple(value[name] for name in names) if isinstance(value, dict) else tuple(value)
    if len(values) != len(names):
        raise ValueError(f"needs the fields {', '.join(names)}, not {len(values)} values")
    return values


_TIME = FixedSlot("q", _time_of_nanos, _nanos_of_time)
_PLAIN: dict[SparkKind, Slot] = {
    SparkKind.BOOLEAN: FixedSlot("?", None, _boolean),
    SparkKind.BYTE: FixedSlot("b", None, _integer),
    SparkKind.SHORT: FixedSlot("h", None, _integer),
    SparkKind.INTEGER: FixedSlot("i", None, _integer),
    SparkKind.LONG: FixedSlot("q", None, _integer),
    SparkKind.FLOAT: FixedSlot("f", None, _number),
    SparkKind.DOUBLE: FixedSlot("d", None, _number),
    SparkKind.DATE: FixedSlot("i", scalars.date_of, scalars.days_of),
    SparkKind.TIMESTAMP: FixedSlot("q", scalars.instant_of, scalars.micros_of),
    SparkKind.TIMESTAMP_NTZ: FixedSlot("q", scalars.wall_time_of, scalars.wall_micros_of),
    SparkKind.YEAR_MONTH_INTERVAL: FixedSlot("i", None, _integer),
    SparkKind.DAY_TIME_INTERVAL: FixedSlot("q", None, _integer),
    SparkKind.VOID: FixedSlot("q", _no_value, _no_value),
    SparkKind.STRING: VariableSlot(bytes.decode, _text),
    SparkKind.BINARY: VariableSlot(bytes, _binary),
    SparkKind.CALENDAR_INTERVAL: VariableSlot(
        _decode_interval, _encode_interval, RESERVED_BYTES, RESERVED_BYTES
    ),
    SparkKind.VARIANT: VariableSlot(_decode_variant, _encode_variant),
}


def _decimal(precision: int, scale: int) -> Slot:
    decode = partial(scalars.decimal_of, precision=precision, scale=scale)
    unscaled = partial(scalars.unscaled_of, precision=precision, scale=scale)
    if precision <= LONG_DIGITS:
        return FixedSlot("q", decode, unscaled)

    def decode_long(data: bytes) -> Any:
        if not 1 <= len(data) <= RESERVED_BYTES:
            raise ValueError(f"a decimal has {len(data)} bytes")
        return decode(int.from_bytes(data, "big", signed=True))

    def encode_long(value: Any) -> bytes:
        return scalars.shortest_bytes(unscaled(value))

    return VariableSlot(decode_long, encode_long, RESERVED_BYTES)


def _nanos(time_of: Convert, micros_of: Convert) -> Slot:
    def decode(data: bytes) -> tuple[Any, int]:
        micros, nanos = _NANOS.unpack(data)
        if not 0 <= nanos < _NANOS_OF_MICRO:
            raise ValueError(f"{nanos} ns are not within one microsecond")
        return time_of(micros), nanos

    def encode(value: Any) -> bytes:
        time, nanos = fields_of(value, ("time", "nanoseconds"))
        if not 0 <= _integer(nanos) < _NANOS_OF_MICRO:
            raise ValueError(f"{nanos} ns are not within one microsecond")
        return _NANOS.pack(micros_of(time), nanos)

    return VariableSlot(decode, encode, RESERVED_BYTES, RESERVED_BYTES)
