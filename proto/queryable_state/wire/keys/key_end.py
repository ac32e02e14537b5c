"""The end of an encoded key, found without decoding it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from queryable_state.wire.errors import KeyTypeError
from queryable_state.wire.schema.type_model import Kind, TypeInfo, given

KeyEnd = Callable[[bytes, int], int]
"""`end(data, offset)` returns the offset after the encoded key at `offset`; -1: it is cut off.

Bytes between the two may still be no key of the type, such as text that is not UTF-8: no stored
key has them. So if `end(data, offset) == len(data)`, `data` is a whole stored key or the prefix
of none.
"""

_WIDTHS = {
    Kind.BOOLEAN: 1,
    Kind.BYTE: 1,
    Kind.SHORT: 2,
    Kind.INT: 4,
    Kind.FLOAT: 4,
    Kind.DATE: 4,
    Kind.LONG: 8,
    Kind.DOUBLE: 8,
    Kind.TIME: 8,
    Kind.INSTANT: 8,
    Kind.TIMESTAMP: 8,
    Kind.TIMESTAMP_NTZ: 8,
    Kind.BIG_INT: 16,
}
_SHORT_DECIMAL_DIGITS = 18
_END = b"\x00\x01"
# Escaping keeps the end of a string or binary out of its content.
_TERMINATED = 0


def key_end(info: TypeInfo) -> KeyEnd:
    """Returns the function that finds the end of keys of a type.

    Raises KeyTypeError for a type that keys cannot have.
    """
    if _has_nullable(info):
        return _nullable_end(info) if info.nullable else _fields_end(info)
    parts = _merged(_parts(info))
    if len(parts) == 1:
        return _terminated_end if parts[0] == _TERMINATED else _fixed_end(parts[0])

    def end(data: bytes, offset: int) -> int:
        for width in parts:
            if width:
                offset += width
            else:
                offset = data.find(_END, offset) + len(_END)
                if offset < len(_END):
                    return -1
        return offset if offset <= len(data) else -1

    return end


def _has_nullable(info: TypeInfo) -> bool:
    return info.nullable or any(_has_nullable(field.type) for field in info.fields)


def _nullable_end(info: TypeInfo) -> KeyEnd:
    if info.kind == Kind.LIST:
        value_end = _list_end(key_end(given(info.element)))
    else:
        value_end = key_end(replace(info, nullable=False))

    def end(data: bytes, offset: int) -> int:
        if offset >= len(data):
            return -1
        return value_end(data, offset + 1) if data[offset] else offset + 1

    return end


def _list_end(element_end: KeyEnd) -> KeyEnd:
    def end(data: bytes, offset: int) -> int:
        while 0 <= offset < len(data) and data[offset]:
            offset = element_end(data, offset + 1)
        return offset + 1 if 0 <= offset < len(data) else -1

    return end


def _fields_end(info: TypeInfo) -> KeyEnd:
    ends = [key_end(field.type) for field in info.fields]

    def end(data: bytes, offset: int) -> int:
        for field_end in ends:
            offset = field_end(data, offset)
            if offset < 0:
                break
        return offset

    return end


def _terminated_end(data: bytes, offset: int) -> int:
    found = data.find(_END, offset)
    return found if found < 0 else found + len(_END)


def _fixed_end(width: int) -> KeyEnd:
    def end(data: bytes, offset: int) -> int:
        offset += width
        return offset if offset <= len(data) else -1

    return end


def _parts(info: TypeInfo) -> list[int]:
    """The bytes of each scalar of a key, in order; `_TERMINATED` for a string or binary."""
    if info.kind in (Kind.ROW, Kind.TUPLE) and info.fields:
        return [part for field in info.fields for part in _parts(field.type)]
    if info.kind in (Kind.STRING, Kind.BINARY):
        return [_TERMINATED]
    if info.kind == Kind.DECIMAL:
        return [8 if 0 < info.precision <= _SHORT_DECIMAL_DIGITS else 16]
    try:
        return [_WIDTHS[info.kind]]
    except KeyError:
        raise KeyTypeError(f"a key cannot be of type {info}") from None


def _merged(parts: list[int]) -> tuple[int, ...]:
    """The parts with neighbours of fixed width added up."""
    merged: list[int] = []
    for part in parts:
        if part and merged and merged[-1]:
            merged[-1] += part
        else:
            merged.append(part)
    return tuple(merged)
