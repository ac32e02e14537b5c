"""Codecs of lists and maps in payloads: a count, a null bitmap, then the non-null values."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any

from queryable_state.wire.errors import InvalidRequestError
from queryable_state.wire.schema.type_model import Kind, TypeInfo, given
from queryable_state.wire.values.scalar_codecs import (
    NATIVE_FORMATS,
    NUMBERS,
    Decode,
    Encode,
    PayloadError,
    packed_count,
    refusal,
)

_COUNT = struct.Struct("<I")


def _native(info: TypeInfo) -> str:
    """The `struct` format of a list's elements; empty unless they are plain numbers."""
    kind = given(info.element).kind
    return NATIVE_FORMATS[kind] if kind in NUMBERS else ""


def list_encoder(info: TypeInfo, path: str, encode_element: Encode) -> Encode:
    """An encoder of any iterable but strings, bytes and mappings."""
    native = _native(info)

    def encode(value: Any) -> bytes:
        if isinstance(value, (str, bytes, Mapping)) or not hasattr(value, "__iter__"):
            raise refusal(value, info, path)
        values = value if isinstance(value, (list, tuple)) else list(value)
        count = packed_count(len(values), value, info, path)
        if native:
            try:
                bitmap = bytes((len(values) + 7) // 8)
                return count + bitmap + struct.pack(f"<{len(values)}{native}", *values)
            except (struct.error, OverflowError, TypeError):
                # A null or a wrong element: the loop below finds out which.
                pass
        return count + _with_bitmap(values, encode_element)

    return encode


def _with_bitmap(values: list[Any] | tuple[Any, ...], encode: Encode) -> bytes:
    bitmap = bytearray((len(values) + 7) // 8)
    parts = []
    for position, value in enumerate(values):
        if value is None:
            bitmap[position >> 3] |= 1 << (position & 7)
        else:
            parts.append(encode(value))
    return bytes(bitmap) + b"".join(parts)


def _bitmap(data: bytes, offset: int) -> tuple[int, bytes, int]:
    """Count, null bitmap and the offset of the elements."""
    (count,) = _COUNT.unpack_from(data, offset)
    start = offset + 4
    end = start + (count + 7) // 8
    if end > len(data):
        raise PayloadError(f"{count} elements at {offset} go beyond its end")
    if count & 7 and data[end - 1] >> (count & 7):
        raise PayloadError("a null bitmap has more bits than elements")
    return count, data[start:end], end


def list_decoder(info: TypeInfo, decode_element: Decode) -> Decode:
    """A decoder to `list`."""
    native = _native(info)
    width = struct.calcsize("<" + native)

    def decode(data: bytes, offset: int) -> tuple[Any, int]:
        count, nulls, end = _bitmap(data, offset)
        has_nulls = any(nulls)
        if native and not has_nulls:
            if count * width > len(data) - end:
                raise PayloadError(f"{count} elements at {offset} go beyond its end")
            return list(struct.unpack_from(f"<{count}{native}", data, end)), end + count * width
        values: list[Any] = []
        for position in range(count):
            if has_nulls and nulls[position >> 3] >> (position & 7) & 1:
                values.append(None)
            else:
                value, end = decode_element(data, end)
                values.append(value)
        return values, end

    return decode


def map_encoder(info: TypeInfo, path: str, encode_key: Encode, encode_value: Encode) -> Encode:
    """An encoder of mappings, in their own order."""
    _check_keys(info, path)

    def encode(value: Any) -> bytes:
        if not isinstance(value, Mapping):
            raise refusal(value, info, path)
        bitmap = bytearray((len(value) + 7) // 8)
        parts = []
        keys = set()
        for position, (key, item) in enumerate(value.items()):
            encoded = encode_key(key)
            keys.add(encoded)
            parts.append(encoded)
            if item is None:
                bitmap[position >> 3] |= 1 << (position & 7)
            else:
                parts.append(encode_value(item))
        if len(keys) < len(value):
            raise refusal(value, info, path, f"two of its keys are the same {info.key}")
        return packed_count(len(value), value, info, path) + bytes(bitmap) + b"".join(parts)

    return encode


def map_decoder(info: TypeInfo, decode_key: Decode, decode_value: Decode) -> Decode:
    """A decoder to `dict`."""
    _check_keys(info, "value")

    def decode(data: bytes, offset: int) -> tuple[Any, int]:
        count, nulls, end = _bitmap(data, offset)
        entries: dict[Any, Any] = {}
        for position in range(count):
            key, end = decode_key(data, end)
            if nulls[position >> 3] >> (position & 7) & 1:
                entries[key] = None
            else:
                entries[key], end = decode_value(data, end)
        if len(entries) != count:
            raise PayloadError("a map has the same key twice")
        return entries, end

    return decode


def _check_keys(info: TypeInfo, path: str) -> None:
    pending = [given(info.key)]
    while pending:
        key = pending.pop()
        if key.kind in (Kind.LIST, Kind.MAP, Kind.PICKLED, Kind.CUSTOM):
            raise InvalidRequestError(f"{path} is {info}: keys of a map cannot hold {key}")
        pending += [f.type for f in key.fields]
