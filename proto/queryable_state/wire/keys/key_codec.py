"""Codec of keys: order-preserving and self-delimiting bytes.

Encoded keys compare as bytes the way their values compare, and no encoded key is
a prefix of another, so keys can be concatenated and scanned by range:

* integers, dates, times and timestamps: big-endian at their width, sign bit flipped;
* booleans: one byte, 0 or 1;
* strings (UTF-8) and binary: 00 as 00 FF, ended by 00 01;
* floats: IEEE bits, all flipped when negative, else the sign bit alone; -0.0 is
  0.0, every NaN is the same one and sorts last;
* decimals and BIG_INT: the unscaled number plus half the range, 8 bytes up to 18 digits, else 16;
* rows and tuples: their fields, one after the other;
* keys and fields of a nullable type: 00 for a null, which sorts first, else 01 and the value;
* lists: each element behind 01, and 00 at the end.

A key contains no map, pickle or custom value, and nulls and lists only in a nullable type, as keys
of state that Spark keeps itself have it. A list is decoded to a tuple, so that keys have a hash.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from queryable_state.wire.errors import CorruptDataError, KeyTypeError
from queryable_state.wire.keys import key_scalars
from queryable_state.wire.keys.window_keys import key_values
from queryable_state.wire.rows import row_class
from queryable_state.wire.schema.type_model import Kind, TypeInfo, given

Encode = Callable[[Any], bytes]
Decode = Callable[[bytes, int], tuple[Any, int]]

_NULL = b"\x00"
_NOT_NULL = b"\x01"


class KeyCodec:
    """Encodes and decodes keys of one type. Immutable; usable from every thread.

    `encode(value) -> bytes` raises KeyTypeError for a value of another type.
    `decode(data, offset=0) -> (value, end)` reads the key at `offset`.
    """

    __slots__ = ("_decode", "encode", "type_info")

    encode: Encode

    def __init__(self, type_info: TypeInfo) -> None:
        self.type_info = type_info
        self.encode, self._decode = _codec(type_info, "key")

    def decode(self, data: bytes, offset: int = 0) -> tuple[Any, int]:
        """The key at `offset` and the offset of its end."""
        return self._decode(data, offset)

    def decode_all(self, data: bytes) -> Any:
        """The key in `data`; raises CorruptDataError if bytes follow it."""
        value, end = self._decode(data, 0)
        if end != len(data):
            raise CorruptDataError(
                f"{len(data) - end} bytes follow a {self.type_info} key of {end} bytes"
            )
        return value

    def __reduce__(self) -> tuple[object, ...]:
        return (KeyCodec, (self.type_info,))


def _codec(info: TypeInfo, path: str) -> tuple[Encode, Decode]:
    codec = _codec_of_values(info, path)
    return _nullable(*codec, path) if info.nullable else codec


def _nullable(encode_value: Encode, decode_value: Decode, path: str) -> tuple[Encode, Decode]:
    def encode(value: Any) -> bytes:
        return _NULL if value is None else _NOT_NULL + encode_value(value)

    def decode(data: bytes, offset: int) -> tuple[Any, int]:
        marker = data[offset : offset + 1]
        if marker == _NOT_NULL:
            return decode_value(data, offset + 1)
        if marker != _NULL:
            raise CorruptDataError(f"{path}: the encoded key has no null marker at {offset}")
        return None, offset + 1

    return encode, decode


def _codec_of_values(info: TypeInfo, path: str) -> tuple[Encode, Decode]:
    if info.kind in (Kind.ROW, Kind.TUPLE):
        return _composite(info, path)
    if info.kind == Kind.LIST and info.nullable:
        return _list(given(info.element), path)
    scalar = key_scalars.codec(info, path)
    if scalar is None:
        raise KeyTypeError(
            f"{path} cannot be of type {info}: keys are scalars, or rows and tuples of scalars"
        )
    return scalar


def _list(element: TypeInfo, path: str) -> tuple[Encode, Decode]:
    encode_element, decode_element = _codec(element, f"{path}[]")

    def encode(value: Any) -> bytes:
        if not isinstance(value, (list, tuple)):
            raise KeyTypeError(f"{path} is a list, which a {type(value).__name__} is not")
        return b"".join([_NOT_NULL + encode_element(each) for each in value]) + _NULL

    def decode(data: bytes, offset: int) -> tuple[Any, int]:
        elements = []
        while (marker := data[offset : offset + 1]) == _NOT_NULL:
            element, offset = decode_element(data, offset + 1)
            elements.append(element)
        if marker != _NULL:
            raise CorruptDataError(f"{path}: the encoded list has no end at {offset}")
        return tuple(elements), offset + 1

    return encode, decode


def _composite(info: TypeInfo, path: str) -> tuple[Encode, Decode]:
    if not info.fields:
        raise KeyTypeError(f"{path} of type {info} has no fields")
    codecs = [
        _codec(f.type, f"{path}.{f.name}" if f.name else f"{path}[{i}]")
        for i, f in enumerate(info.fields)
    ]
    encoders = tuple(encode for encode, _ in codecs)
    decoders = tuple(decode for _, decode in codecs)
    values_of = key_values(info, path)
    make: Callable[[list[Any]], Any] = tuple
    if info.kind == Kind.ROW:
        make = row_class(tuple(f.name for f in info.fields))

    def encode(value: Any) -> bytes:
        values = values_of(value)
        return b"".join([part(v) for part, v in zip(encoders, values, strict=True)])

    def decode(data: bytes, offset: int) -> tuple[Any, int]:
        values = []
        for part in decoders:
            value, offset = part(data, offset)
            values.append(value)
        return make(values), offset

    return encode, decode
