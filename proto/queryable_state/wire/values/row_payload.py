"""Rows and tuples within payloads: a null bitmap, then the fields that are not null.

Fields that are all plain numbers are written and read by one `struct` call.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

from queryable_state.wire.errors import SerializationError
from queryable_state.wire.rows import row_class, row_values
from queryable_state.wire.schema.type_model import Kind, TypeInfo
from queryable_state.wire.values.scalar_codecs import (
    NATIVE_FORMATS,
    NUMBERS,
    Decode,
    Encode,
    PayloadError,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


def row_encoder(info: TypeInfo, path: str, encoders: Sequence[Encode]) -> Encode:
    """Encodes a ROW or TUPLE whose fields the encoders write."""
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
    by_position: set[type] = {tuple, list}
    if info.kind == Kind.ROW:
        by_position.add(row_class(tuple(f.name for f in info.fields)))

    def encode_numbers(value: Any) -> bytes:
        made_of = value.__class__
        if made_of in by_position:
            try:
                return pack(b"", *value)
            except (struct.error, OverflowError, TypeError):
                # A null, or a value that is refused: told apart field by field.
                return encode(value)
        return encode(value)

    return encode_numbers


def row_decoder(info: TypeInfo, decoders: Sequence[Decode]) -> Decode:
    """Decodes a ROW to a `Row`, a TUPLE to a tuple."""
    width = len(decoders)
    bitmap_bytes = (width + 7) // 8
    make: Callable[[Any], Any] = tuple
    if info.kind == Kind.ROW:
        make = row_class(tuple(f.name for f in info.fields))

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
