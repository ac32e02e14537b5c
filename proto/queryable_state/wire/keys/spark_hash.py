"""Spark's Murmur3 hash of keys, equal to the JVM's `Murmur3Hash`, by which Spark partitions its
own state.

It is the 32-bit Murmur3 for x86 with seed 42, except that each byte after the last whole word
counts as a word of its own, sign-extended. Hashed words, each compared with Spark in tests:
booleans, integers up to 32 bits and dates are one word; longs, timestamps and times of day (in
nanoseconds) are two; floats are their IEEE bits with -0.0 as 0.0 and one NaN; decimals of up
to 18 digits are their unscaled long, longer ones the bytes of their shortest big-endian two's
complement; strings (UTF-8) and binary are their bytes. For rows, tuples and lists the hash of a
part is the seed of the next, and a null leaves the seed as it is.
"""

from __future__ import annotations

import struct
from functools import lru_cache
from operator import index
from typing import TYPE_CHECKING, Any

from queryable_state.wire.errors import KeyTypeError
from queryable_state.wire.keys.chained_hash import Hash, chained_hash
from queryable_state.wire.schema.type_model import Kind, TypeInfo
from queryable_state.wire.values import scalars

if TYPE_CHECKING:
    from collections.abc import Callable

_WORD = 0xFFFFFFFF
_C1 = 0xCC9E2D51
_C2 = 0x1B873593
_ADDED = 0xE6546B64

_FLOAT_BITS = struct.Struct("<f").pack
_DOUBLE_BITS = struct.Struct("<d").pack
_FLOAT_NAN = 0x7FC00000
_DOUBLE_NAN = 0x7FF8000000000000
_FLOAT_SIGN = 1 << 31


def spark_hasher(info: TypeInfo) -> Hash:
    """The hash function of a key type, for keys that its KeyCodec has accepted.

    Raises KeyTypeError for a type that keys cannot have.
    """
    return chained_hash(info, _scalar)


def hash_int(number: int, seed: int) -> int:
    """The hash of a 32-bit integer of either sign."""
    return _finished(_mixed(seed, _word(number & _WORD)), 4)


def hash_long(number: int, seed: int) -> int:
    """The hash of a 64-bit integer of either sign."""
    low = _mixed(seed, _word(number & _WORD))
    return _finished(_mixed(low, _word(number >> 32 & _WORD)), 8)


def hash_bytes(data: bytes, seed: int) -> int:
    """The hash of bytes, as of a string or of binary."""
    length = len(data)
    words, tail = _words_of(length >> 2)
    for word in words(data):
        word = word * _C1 & _WORD
        # Bits above the word are multiples of 2**32: the multiplication keeps them above.
        seed ^= (word << 15 | word >> 17) * _C2 & _WORD
        seed = ((seed << 13 | seed >> 19) * 5 + _ADDED) & _WORD
    if length & 3:
        for byte in data[tail:]:
            seed ^= _BYTE_WORDS[byte]
            seed = ((seed << 13 | seed >> 19) * 5 + _ADDED) & _WORD
    seed ^= length
    seed = (seed ^ seed >> 16) * 0x85EBCA6B & _WORD
    seed = (seed ^ seed >> 13) * 0xC2B2AE35 & _WORD
    return seed ^ seed >> 16


def _word(word: int) -> int:
    """A word before it is mixed into the hash."""
    word = word * _C1 & _WORD
    return (word << 15 | word >> 17) * _C2 & _WORD


_BYTE_WORDS = tuple(_word((byte - (byte >> 7 << 8)) & _WORD) for byte in range(256))
"""By byte: the word that a byte after the last whole word counts as."""


def _mixed(seed: int, word: int) -> int:
    seed ^= word
    return ((seed << 13 | seed >> 19) * 5 + _ADDED) & _WORD


def _finished(seed: int, length: int) -> int:
    seed ^= length
    seed = (seed ^ seed >> 16) * 0x85EBCA6B & _WORD
    seed = (seed ^ seed >> 13) * 0xC2B2AE35 & _WORD
    return seed ^ seed >> 16


@lru_cache(maxsize=256)
def _words_of(count: int) -> tuple[Callable[[bytes], tuple[int, ...]], int]:
    """The reader of that many words at the beginning of bytes, and the offset after them."""
    native = struct.Struct(f"<{count}I")
    return native.unpack_from, native.size


def _scalar(info: TypeInfo) -> Hash:
    match info.kind:
        case Kind.STRING:
            return lambda value, seed: hash_bytes(value.encode(), seed)
        case Kind.BINARY:
            return lambda value, seed: hash_bytes(bytes(value), seed)
        case Kind.BOOLEAN | Kind.BYTE | Kind.SHORT | Kind.INT:
            return lambda value, seed: hash_int(index(value), seed)
        case Kind.LONG:
            return lambda value, seed: hash_long(index(value), seed)
        case Kind.FLOAT:
            return lambda value, seed: hash_int(_float_bits(float(value)), seed)
        case Kind.DOUBLE:
            return lambda value, seed: hash_long(_double_bits(float(value)), seed)
        case Kind.DATE:
            return lambda value, seed: hash_int(scalars.days_of(value), seed)
        case Kind.TIMESTAMP | Kind.INSTANT:
            return lambda value, seed: hash_long(scalars.micros_of(value), seed)
        case Kind.TIMESTAMP_NTZ:
            return lambda value, seed: hash_long(scalars.wall_micros_of(value), seed)
        case Kind.TIME:
            return lambda value, seed: hash_long(scalars.time_micros_of(value) * 1000, seed)
        case Kind.BIG_INT:
            return lambda value, seed: hash_bytes(
                scalars.shortest_bytes(scalars.big_int_of(value)), seed
            )
        case Kind.DECIMAL:
            return _decimal(info.precision, info.scale)
        case _:
            raise KeyTypeError(f"keys of type {info} have no hash")


def _float_bits(number: float) -> int:
    if number != number:
        return _FLOAT_NAN
    bits = int.from_bytes(_FLOAT_BITS(number), "little")
    return 0 if bits == _FLOAT_SIGN else bits


def _double_bits(number: float) -> int:
    if number != number:
        return _DOUBLE_NAN
    return int.from_bytes(_DOUBLE_BITS(number + 0.0), "little")


def _decimal(precision: int, scale: int) -> Hash:
    def short(value: Any, seed: int) -> int:
        return hash_long(scalars.unscaled_of(value, precision, scale), seed)

    def long(value: Any, seed: int) -> int:
        unscaled = scalars.unscaled_of(value, precision, scale)
        return hash_bytes(scalars.shortest_bytes(unscaled), seed)

    return short if precision <= 18 else long
