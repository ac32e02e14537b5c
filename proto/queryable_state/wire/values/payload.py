"""Payload codecs: values as bytes, without the header with version and expiry.

Inside rows, lists and maps a value is self-delimiting; at the top of a payload a string, a
binary or a pickle is all of the remaining bytes.

* ROW, TUPLE: null bitmap of (n + 7) // 8 bytes (bit set: null; lowest bit first), then the
  fields that are not null, in order;
* STRING, BINARY, PICKLED, CUSTOM inside: u32 length, bytes;
* LIST: u32 count, null bitmap, the elements that are not null;
* MAP: u32 count, null bitmap of the values, then key and value in turn, null values left out;
* DECIMAL, BIG_INT: u8 length, big-endian two's complement of the unscaled number.

All lengths, counts and fixed-width numbers are little-endian. A decoder checks that the
bytes for a count are there before it uses the count.
"""

from __future__ import annotations

import struct
from functools import partial
from typing import TYPE_CHECKING, Any

from queryable_state.wire.errors import SerializationError
from queryable_state.wire.rows import row_class, row_maker, row_values
from queryable_state.wire.schema.type_model import Kind, TypeInfo, given
from queryable_state.wire.values import scalar_codecs, scalars
from queryable_state.wire.values.collections import (
    list_decoder,
    list_encoder,
    map_decoder,
    map_encoder,
)
from queryable_state.wire.values.scalar_codecs import (
    NATIVE_FORMATS,
    NUMBERS,
    Decode,
    Encode,
    PayloadError,
    PickleMode,
    packed_count,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


_COUNT = struct.Struct("<I")
_RAW = (Kind.STRING, Kind.BINARY, Kind.PICKLED, Kind.CUSTOM)


def row_encoder(info: TypeInfo, path: str, encoders: Sequence[Encode]) -> Encode:
    """An encoder of a ROW or TUPLE from the encoders of its fields."""
    values_of = row_values(info, path, SerializationError)
    bitmap_bytes = (len(encoders) + 7) // 8

    def encode(value: Any) -> bytes:
        parts = [b""]
        nulls = 0
        for position, field in enumerate(values_of(value)):
            if field is None:
                nulls |= 1 << position
            else:
                parts.append(encoders[position](field))
        parts[0] = nulls.to_bytes(bitmap_bytes, "little")
        return b"".join(parts)

    if not all(f.type.kind in NUMBERS for f in info.fields):
        return encode
    formats = "".join(NATIVE_FORMATS[f.type.kind] for f in info.fields)
    pack = struct.Struct(f"<{bitmap_bytes}s{formats}").pack
    by_position: set[type | None] = {tuple, list}
    if info.kind == Kind.ROW:
        by_position.add(row_class(tuple(f.name for f in info.fields)))
        if issubclass(info.python_class or object, tuple):
            by_position.add(info.python_class)

    def encode_numbers(value: Any) -> bytes:
        made_of = value.__class__
        if made_of in by_position:
            try:
                return pack(b"", *value)
            except (struct.error, OverflowError, TypeError):
                # A null or a wrong value: `encode` finds out which.
                return encode(value)
        return encode(value)

    return encode_numbers


def row_decoder(info: TypeInfo, decoders: Sequence[Decode]) -> Decode:
    """A decoder of a ROW to a `Row` or an instance of its class, of a TUPLE to a tuple."""
    width = len(decoders)
    bitmap_bytes = (width + 7) // 8
    make = row_maker(info)

    def decode(data: bytes, offset: int) -> tuple[Any, int]:
        end = offset + bitmap_bytes
        if end > len(data):
            raise PayloadError("it ends within a null bitmap")
        nulls = int.from_bytes(data[offset:end], "little")
        if nulls >> width:
            raise PayloadError("a null bitmap has more bits than fields")
        values: list[Any] = []
        for position, decode_field in enumerate(decoders):
            if nulls >> position & 1:
                values.append(None)
            else:
                value, end = decode_field(data, end)
                values.append(value)
        return make(values), end

    if not all(f.type.kind in NUMBERS for f in info.fields):
        return decode
    formats = "".join(NATIVE_FORMATS[f.type.kind] for f in info.fields)
    native = struct.Struct(f"<{formats}")
    no_nulls = bytes(bitmap_bytes)

    def decode_numbers(data: bytes, offset: int) -> tuple[Any, int]:
        start = offset + bitmap_bytes
        if data[offset:start] != no_nulls:
            return decode(data, offset)
        return make(native.unpack_from(data, start)), start + native.size

    return decode_numbers


def top_encoder(info: TypeInfo, path: str, pickles: PickleMode) -> Encode:
    """An encoder of whole payloads."""
    if info.kind in _RAW:
        return scalar_codecs.bytes_encoder(info, path, pickles)
    return encoder(info, path, pickles)


def top_decoder(info: TypeInfo, pickles: PickleMode) -> Callable[[bytes, int], Any]:
    """A decoder of the payload from an offset to the end of the data.

    It raises ValueError (PayloadError, UnicodeDecodeError) or struct.error for damaged bytes.
    """
    if info.kind in _RAW:
        of_bytes = scalar_codecs.bytes_decoder(info, pickles)
        return lambda data, offset: of_bytes(data[offset:])
    decode = decoder(info, pickles)

    def decode_all(data: bytes, offset: int) -> Any:
        value, end = decode(data, offset)
        if end != len(data):
            raise PayloadError(f"{len(data) - end} bytes follow it")
        return value

    return decode_all


def whole_decoder(info: TypeInfo) -> Callable[[Sequence[bytes], int], list[Any]] | None:
    """A decoder of many payloads at the same offset; None if each must be decoded alone.

    It raises ValueError if one is damaged.
    """
    if info.kind == Kind.STRING:
        return lambda values, offset: [data[offset:].decode() for data in values]
    if info.kind not in scalar_codecs.NUMBERS:
        return None
    native = struct.Struct("<" + NATIVE_FORMATS[info.kind])

    def decode_numbers(values: Sequence[bytes], offset: int) -> list[Any]:
        if set(map(len, values)) != {offset + native.size}:
            raise PayloadError("a number of another length")
        return [native.unpack_from(data, offset)[0] for data in values]

    return decode_numbers


def encoder(info: TypeInfo, path: str, pickles: PickleMode) -> Encode:
    """Encodes a value within another one; `path` names it in errors."""
    match info.kind:
        case Kind.DECIMAL | Kind.BIG_INT:
            return scalar_codecs.decimal_encoder(info, path)
        case Kind.STRING | Kind.BINARY | Kind.PICKLED | Kind.CUSTOM:
            return _prefixed(scalar_codecs.bytes_encoder(info, path, pickles), info, path)
        case Kind.ROW | Kind.TUPLE:
            names = [f".{f.name}" if f.name else f"[{i}]" for i, f in enumerate(info.fields)]
            fields = [
                encoder(f.type, path + name, pickles)
                for f, name in zip(info.fields, names, strict=True)
            ]
            return row_encoder(info, path, fields)
        case Kind.LIST:
            return list_encoder(info, path, encoder(given(info.element), f"{path}[]", pickles))
        case Kind.MAP:
            encode_key = encoder(given(info.key), f"key of {path}", pickles)
            encode_value = encoder(given(info.element), f"{path}[]", pickles)
            return map_encoder(info, path, encode_key, encode_value)
        case _:
            return scalar_codecs.fixed_encoder(info, path)


def decoder(info: TypeInfo, pickles: PickleMode) -> Decode:
    """A decoder of a value inside another one."""
    match info.kind:
        case Kind.DECIMAL | Kind.BIG_INT:
            return _decimal_decoder(info)
        case Kind.STRING | Kind.BINARY | Kind.PICKLED | Kind.CUSTOM:
            return _raw_decoder(info, pickles)
        case Kind.ROW | Kind.TUPLE:
            return row_decoder(info, [decoder(f.type, pickles) for f in info.fields])
        case Kind.LIST:
            return list_decoder(info, decoder(given(info.element), pickles))
        case Kind.MAP:
            decode_key = decoder(given(info.key), pickles)
            return map_decoder(info, decode_key, decoder(given(info.element), pickles))
        case _:
            return _fixed_decoder(info)


def _prefixed(encode: Encode, info: TypeInfo, path: str) -> Encode:
    def encode_prefixed(value: Any) -> bytes:
        data = encode(value)
        return packed_count(len(data), value, info, path) + data

    return encode_prefixed


def _raw_decoder(info: TypeInfo, pickles: PickleMode) -> Decode:
    of_bytes = scalar_codecs.bytes_decoder(info, pickles)

    def decode(data: bytes, offset: int) -> tuple[Any, int]:
        start = offset + 4
        end = start + _COUNT.unpack_from(data, offset)[0]
        if end > len(data):
            raise PayloadError(f"{end - start} bytes at {start} go beyond its end")
        return of_bytes(data[start:end]), end

    return decode


def _decimal_decoder(info: TypeInfo) -> Decode:
    convert: Callable[[int], Any] = scalars.checked_big_int
    if info.kind == Kind.DECIMAL:
        convert = partial(scalars.decimal_of, precision=info.precision, scale=info.scale)

    def decode(data: bytes, offset: int) -> tuple[Any, int]:
        start = offset + 1
        length = data[offset] if offset < len(data) else 0
        if not 1 <= length <= 16 or start + length > len(data):
            raise PayloadError(f"no decimal of {length} bytes at {start}")
        end = start + length
        unscaled = int.from_bytes(data[start:end], "big", signed=True)
        return convert(unscaled), end

    return decode


def _fixed_decoder(info: TypeInfo) -> Decode:
    native = struct.Struct("<" + NATIVE_FORMATS[info.kind])
    unpack_from, width = native.unpack_from, native.size
    convert = scalar_codecs.FROM_INTEGER.get(info.kind)

    def decode(data: bytes, offset: int) -> tuple[Any, int]:
        return unpack_from(data, offset)[0], offset + width

    def decode_converted(data: bytes, offset: int) -> tuple[Any, int]:
        return converter(unpack_from(data, offset)[0]), offset + width

    if convert is None:
        return decode
    converter = convert
    return decode_converted
