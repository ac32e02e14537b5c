"""Codecs of scalar values as little-endian bytes, one a type.

A scalar has the same bytes at the top of a value and inside rows and lists, except that a
length precedes scalars of variable length there.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from queryable_state.wire.errors import SerializationError
from queryable_state.wire.schema.type_model import Kind, TypeInfo
from queryable_state.wire.values import scalars
from queryable_state.wire.values.pickled import Pickle, PickledValue
from queryable_state.wire.values.serialized import SerializedValue, deserialized, serialized

Encode = Callable[[Any], bytes]
Decode = Callable[[bytes, int], tuple[Any, int]]

NATIVE_FORMATS = {
    Kind.BOOLEAN: "?",
    Kind.BYTE: "b",
    Kind.SHORT: "h",
    Kind.INT: "i",
    Kind.LONG: "q",
    Kind.FLOAT: "f",
    Kind.DOUBLE: "d",
    Kind.DATE: "i",
    Kind.TIMESTAMP: "q",
    Kind.TIMESTAMP_NTZ: "q",
    Kind.TIME: "q",
    Kind.INSTANT: "q",
}
"""`struct` formats of the types of fixed width."""

NUMBERS = frozenset((Kind.BYTE, Kind.SHORT, Kind.INT, Kind.LONG, Kind.FLOAT, Kind.DOUBLE))
"""The types whose Python values `struct` packs without conversion."""

_COUNT = struct.Struct("<I")

_TO_INTEGER: dict[Kind, Callable[[Any], int]] = {
    Kind.DATE: scalars.days_of,
    Kind.TIMESTAMP: scalars.micros_of,
    Kind.TIMESTAMP_NTZ: scalars.wall_micros_of,
    Kind.TIME: scalars.time_micros_of,
    Kind.INSTANT: scalars.micros_of,
}
FROM_INTEGER: dict[Kind, Callable[[int], Any]] = {
    Kind.DATE: scalars.date_of,
    Kind.TIMESTAMP: scalars.instant_of,
    Kind.TIMESTAMP_NTZ: scalars.wall_time_of,
    Kind.TIME: scalars.time_of,
    Kind.INSTANT: scalars.instant_object_of,
}


@dataclass(frozen=True, slots=True)
class PickleMode:
    """Treatment of PICKLED values."""

    dump: Pickle | None = None
    """Pickles any object; None: only bytes that are a pickle are encoded."""
    load: bool = False
    """Decode to the unpickled object; False: to a `PickledValue`."""


class PayloadError(ValueError):
    """Bytes that are not a payload of the type; the caller translates it."""


def refusal(value: Any, info: TypeInfo, path: str, why: object = "") -> SerializationError:
    """The error for a value of another type."""
    if value is None:
        return SerializationError(f"{path} is null, but must be {info}")
    shown = repr(value)
    shown = shown if len(shown) <= 80 else shown[:80] + "..."
    detail = f": {why}" if str(why) else ""
    return SerializationError(
        f"{path} is {info}, which {type(value).__name__} {shown} is not{detail}"
    )


def packed_count(count: int, value: Any, info: TypeInfo, path: str) -> bytes:
    """Encodes the length or count before the items."""
    try:
        return _COUNT.pack(count)
    except struct.error:
        raise refusal(value, info, path, "it is longer than 4 GiB") from None


def fixed_encoder(info: TypeInfo, path: str) -> Encode:
    """An encoder of a scalar of fixed width."""
    pack = struct.Struct("<" + NATIVE_FORMATS[info.kind]).pack
    convert = _TO_INTEGER.get(info.kind)
    if info.kind == Kind.BOOLEAN:
        convert = _boolean

    def encode(value: Any) -> bytes:
        try:
            return pack(value)
        except (struct.error, OverflowError, TypeError) as error:
            raise refusal(value, info, path, error) from None

    def encode_converted(value: Any) -> bytes:
        try:
            return pack(converter(value))
        except (struct.error, OverflowError, TypeError, ValueError) as error:
            raise refusal(value, info, path, error) from None

    if convert is None:
        return encode
    converter = convert
    return encode_converted


def _boolean(value: Any) -> int:
    # numpy's booleans are not instances of bool; bool() would accept every other object.
    if isinstance(value, bool) or type(value).__module__ == "numpy":
        return bool(value)
    raise TypeError("needs a bool")


def bytes_encoder(info: TypeInfo, path: str, pickles: PickleMode) -> Encode:
    """An encoder of a STRING, BINARY, PICKLED or CUSTOM value without its length."""

    def encode_string(value: Any) -> bytes:
        if not isinstance(value, str):
            raise refusal(value, info, path)
        try:
            return value.encode()
        except UnicodeEncodeError as error:
            raise refusal(value, info, path, error) from None

    def encode_binary(value: Any) -> bytes:
        if not isinstance(value, (bytes, bytearray, memoryview)):
            raise refusal(value, info, path)
        return bytes(value)

    serializer = info.serializer
    if serializer is not None:
        return lambda value: serialized(value, serializer, path)
    if info.kind == Kind.STRING:
        return encode_string
    dump = pickles.dump
    if info.kind == Kind.PICKLED and dump is not None:
        return lambda value: PickledValue.dump(value, path, dump)
    return encode_binary


def bytes_decoder(info: TypeInfo, pickles: PickleMode) -> Callable[[bytes], Any]:
    """A decoder of a STRING, BINARY, PICKLED or CUSTOM value; ValueError for invalid UTF-8."""
    if info.kind == Kind.STRING:
        return bytes.decode
    serializer = info.serializer
    if serializer is not None:
        return lambda data: deserialized(data, serializer)
    if info.kind == Kind.CUSTOM:
        return SerializedValue
    if info.kind == Kind.PICKLED:
        return (lambda data: PickledValue(data).load()) if pickles.load else PickledValue
    return bytes


def decimal_encoder(info: TypeInfo, path: str) -> Encode:
    """An encoder of DECIMAL and BIG_INT: a length byte, then the shortest unscaled number."""

    unscaled_of: Callable[[Any], int] = scalars.big_int_of
    if info.kind == Kind.DECIMAL:
        unscaled_of = partial(scalars.unscaled_of, precision=info.precision, scale=info.scale)

    def encode(value: Any) -> bytes:
        try:
            unscaled = unscaled_of(value)
        except (TypeError, ValueError) as error:
            raise refusal(value, info, path, error) from None
        data = scalars.shortest_bytes(unscaled)
        return bytes((len(data),)) + data

    return encode
