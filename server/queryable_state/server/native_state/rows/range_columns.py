"""Spark's order-preserving encoding of numbers, for keys that are scanned by range.

    marker (1) | number, big-endian at its width

The marker is 0 for negative numbers, 1 for others, 2 for null, whose number is zero. So nulls sort
last. All bits of a negative float are flipped; it is negative if its sign bit is set, also as -0.0
or NaN.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

from queryable_state.server.native_state.rows.spark_types import (
    SparkKind,
    SparkType,
    UnsupportedTypeError,
)

if TYPE_CHECKING:
    from collections.abc import Callable

_NEGATIVE, _POSITIVE, _NULL = b"\x00", b"\x01", b"\x02"
_MARKERS = (_NEGATIVE, _POSITIVE)
_INTEGERS = {
    SparkKind.BYTE: ">b",
    SparkKind.SHORT: ">h",
    SparkKind.INTEGER: ">i",
    SparkKind.LONG: ">q",
}
_FLOATS = {SparkKind.FLOAT: ">f", SparkKind.DOUBLE: ">d"}


class RangeColumn:
    """Codec of one ordering column. Encoders raise TypeError or struct.error for other values,
    decoders ValueError or struct.error for bytes that Spark does not write."""

    def __init__(self, spark_type: SparkType) -> None:
        """Raises UnsupportedTypeError for a type by which Spark does not order."""
        kind = spark_type.kind
        self.encode: Callable[[Any], bytes]
        """The bytes of a number or of None."""
        self.decode: Callable[[bytes], Any]
        """The number of its bytes; None for a null."""
        if kind in _INTEGERS:
            self.encode, self.decode = _integer(_INTEGERS[kind])
        elif kind in _FLOATS:
            self.encode, self.decode = _float(_FLOATS[kind])
        elif kind == SparkKind.BOOLEAN:
            # Spark's UnsafeRow form leaves booleans out: their bytes are empty.
            raise UnsupportedTypeError("keys ordered by a boolean cannot be read")
        else:
            raise UnsupportedTypeError(f"keys ordered by a {spark_type} are unknown to Spark")


def _integer(form: str) -> tuple[Callable[[Any], bytes], Callable[[bytes], Any]]:
    native = struct.Struct(form)
    null = _NULL + bytes(native.size)

    def encode(value: Any) -> bytes:
        if value is None:
            return null
        return _MARKERS[value >= 0] + native.pack(value)

    def decode(data: bytes) -> Any:
        if data == null:
            return None
        (value,) = native.unpack(data[1:])
        if data[:1] != _MARKERS[value >= 0]:
            raise ValueError(f"marker {data[:1].hex()} of {value} is wrong")
        return value

    return encode, decode


def _float(form: str) -> tuple[Callable[[Any], bytes], Callable[[bytes], Any]]:
    native = struct.Struct(form)
    width = native.size
    null = _NULL + bytes(width)
    sign, ones = 1 << (8 * width - 1), (1 << (8 * width)) - 1

    def encode(value: Any) -> bytes:
        if value is None:
            return null
        packed = native.pack(value)
        bits = int.from_bytes(packed, "big")
        if bits & sign:
            return _NEGATIVE + (bits ^ ones).to_bytes(width, "big")
        return _POSITIVE + packed

    def decode(data: bytes) -> Any:
        if data == null:
            return None
        marker, packed = data[:1], data[1:]
        if marker == _NEGATIVE and len(packed) == width:
            packed = (int.from_bytes(packed, "big") ^ ones).to_bytes(width, "big")
        elif marker != _POSITIVE:
            raise ValueError(f"marker {marker.hex()} is unknown")
        return native.unpack(packed)[0]

    return encode, decode
