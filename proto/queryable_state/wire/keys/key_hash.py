"""Spark's `xxhash64` of keys, equal to the JVM's.

Hashed bytes, each compared with Spark in tests: strings and binary as they are; integers up
to 32 bits and dates as 4 bytes, longs, timestamps and times of day (in nanoseconds) as 8 bytes,
little-endian; booleans as the integer 0 or 1; floats as their IEEE bits with -0.0 as 0.0 and
one NaN; decimals of up to 18 digits as their unscaled long, longer ones as the shortest
big-endian two's complement. For rows, tuples and lists the hash of a part is the seed of the next.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

from xxhash import xxh64_intdigest

from queryable_state.wire.errors import KeyTypeError
from queryable_state.wire.keys.chained_hash import Hash, chained_hash
from queryable_state.wire.schema.type_model import Kind, TypeInfo
from queryable_state.wire.values import scalars

if TYPE_CHECKING:
    from collections.abc import Callable

_INT = struct.Struct("<i").pack
_LONG = struct.Struct("<q").pack
_FLOAT = struct.Struct("<f").pack
_DOUBLE = struct.Struct("<d").pack
_FLOAT_NAN = (0x7FC00000).to_bytes(4, "little")
_DOUBLE_NAN = (0x7FF8000000000000).to_bytes(8, "little")
_NEGATIVE_ZERO = _FLOAT(-0.0)


def hasher(info: TypeInfo) -> Hash:
    """The hash function of a key type, for keys that its KeyCodec has accepted.

    A null has the seed as its hash.
    """
    return chained_hash(info, _hash_of_bytes)


def _hash_of_bytes(info: TypeInfo) -> Hash:
    form = _byte_form(info)

    def hash_key(value: Any, seed: int) -> int:
        return xxh64_intdigest(form(value), seed)

    return hash_key


def _byte_form(info: TypeInfo) -> Callable[[Any], bytes]:
    match info.kind:
        case Kind.STRING:
            return str.encode
        case Kind.BINARY:
            return bytes
        case Kind.BOOLEAN | Kind.BYTE | Kind.SHORT | Kind.INT:
            return _INT
        case Kind.LONG:
            return _LONG
        case Kind.FLOAT:
            return _float_form
        case Kind.DOUBLE:
            return _double_form
        case Kind.DATE:
            return lambda value: _INT(scalars.days_of(value))
        case Kind.TIMESTAMP | Kind.INSTANT:
            return lambda value: _LONG(scalars.micros_of(value))
        case Kind.TIMESTAMP_NTZ:
            return lambda value: _LONG(scalars.wall_micros_of(value))
        case Kind.TIME:
            return lambda value: _LONG(scalars.time_micros_of(value) * 1000)
        case Kind.BIG_INT:
            return lambda value: scalars.shortest_bytes(scalars.big_int_of(value))
        case Kind.DECIMAL:
            return _decimal_form(info.precision, info.scale)
        case _:
            raise KeyTypeError(f"keys of type {info} have no hash")


def _float_form(value: Any) -> bytes:
    number = float(value)
    if number != number:
        return _FLOAT_NAN
    form = _FLOAT(number + 0.0)
    return b"\x00\x00\x00\x00" if form == _NEGATIVE_ZERO else form


def _double_form(value: Any) -> bytes:
    number = float(value)
    return _DOUBLE(number + 0.0) if number == number else _DOUBLE_NAN


def _decimal_form(precision: int, scale: int) -> Callable[[Any], bytes]:
    def short(value: Any) -> bytes:
        return _LONG(scalars.unscaled_of(value, precision, scale))

    def long(value: Any) -> bytes:
        return scalars.shortest_bytes(scalars.unscaled_of(value, precision, scale))

    return short if precision <= 18 else long
