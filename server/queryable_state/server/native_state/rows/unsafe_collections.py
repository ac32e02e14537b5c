"""Codecs of arrays and maps in Spark's unsafe form.

    array   number of elements (8) | null bits, in words of 8 bytes | slots | variable values
    map     bytes of the key array (8) | key array | value array

The slot of an element of fixed width has that width; all slots together are padded to a multiple
of 8. Offsets count from the beginning of the array.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

from queryable_state.server.native_state.rows.type_infos import given, is_presented_as_map
from queryable_state.server.native_state.rows.unsafe_slots import (
    FixedSlot,
    Slot,
    VariableSlot,
    fields_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from queryable_state.server.native_state.rows.spark_types import SparkType

_COUNT = struct.Struct("<Q")
_WORD = 8
_SIZE_MASK = 0xFFFFFFFF


def array_slot(spark_type: SparkType, slot_of: Callable[[SparkType], Slot]) -> VariableSlot:
    """The codec of an array; `slot_of` makes the codec of its elements."""
    element = slot_of(given(spark_type.element))
    return VariableSlot(_array_decoder(element), _array_encoder(element))


def map_slot(spark_type: SparkType, slot_of: Callable[[SparkType], Slot]) -> VariableSlot:
    """The codec of a map: a dictionary, or a list of entries if its keys are not hashable."""
    key, value = slot_of(given(spark_type.key)), slot_of(given(spark_type.element))
    decode_keys, decode_values = _array_decoder(key), _array_decoder(value)
    encode_keys, encode_values = _array_encoder(key), _array_encoder(value)
    as_map = is_presented_as_map(spark_type)

    def decode(data: bytes) -> Any:
        end = _COUNT.size + _COUNT.unpack_from(data)[0]
        if end > len(data):
            raise ValueError("the keys of a map go beyond its end")
        keys, values = decode_keys(data[_COUNT.size : end]), decode_values(data[end:])
        if len(keys) != len(values) or None in keys:
            raise ValueError(f"a map has {len(keys)} keys and {len(values)} values, or a null key")
        entries = list(zip(keys, values, strict=True))
        if not as_map:
            return entries
        found = dict(entries)
        if len(found) < len(entries):
            raise ValueError("a map has the same key twice")
        return found

    def encode(value: Any) -> bytes:
        entries = value.items() if as_map else [fields_of(e, ("key", "value")) for e in value]
        keys = encode_keys([key for key, _ in entries])
        return _COUNT.pack(len(keys)) + keys + encode_values([each for _, each in entries])

    return VariableSlot(decode, encode)


def _array_decoder(slot: Slot) -> Callable[[bytes], list[Any]]:
    char = slot.char if isinstance(slot, FixedSlot) else "Q"
    size = struct.calcsize(f"<{char}")

    def decode(data: bytes) -> list[Any]:
        (count,) = _COUNT.unpack_from(data)
        if count * size > len(data):
            raise ValueError(f"an array of {count} elements goes beyond its end")
        header = _COUNT.size + (count + 63) // 64 * _WORD
        values: list[Any] = list(struct.unpack_from(f"<{count}{char}", data, header))
        nulls = int.from_bytes(data[_COUNT.size : header], "little")
        if nulls >> count:
            raise ValueError("an array has more nulls than elements")
        if isinstance(slot, VariableSlot):
            first, convert = header + count * size, slot.decode
            for position, place in enumerate(values):
                start = place >> 32
                end = start + (place & _SIZE_MASK)
                if nulls >> position & 1:
                    continue
                if start < first or end > len(data):
                    raise ValueError(f"element {position} is outside of its array")
                values[position] = convert(data[start:end])
        elif slot.decode is not None:
            convert = slot.decode
            values = [
                value if nulls >> position & 1 else convert(value)
                for position, value in enumerate(values)
            ]
        if nulls:
            return [None if nulls >> i & 1 else value for i, value in enumerate(values)]
        return values

    return decode


def _array_encoder(slot: Slot) -> Callable[[Sequence[Any]], bytes]:
    char = slot.char if isinstance(slot, FixedSlot) else "Q"
    size = struct.calcsize(f"<{char}")

    def encode(elements: Sequence[Any]) -> bytes:
        if isinstance(elements, (str, bytes, dict)):
            raise TypeError(f"needs a list, not {type(elements).__name__}")
        count = len(elements)
        bits = (count + 63) // 64 * _WORD
        slots_bytes = (count * size + _WORD - 1) // _WORD * _WORD
        cursor = _COUNT.size + bits + slots_bytes
        nulls = 0
        placed: list[Any] = []
        parts: list[bytes] = []
        for position, value in enumerate(elements):
            if value is None:
                nulls |= 1 << position
                placed.append(0)
            elif isinstance(slot, FixedSlot):
                placed.append(value if slot.encode is None else slot.encode(value))
            else:
                content = slot.encode(value)
                placed.append(cursor << 32 | len(content))
                content += b"\x00" * (-len(content) % _WORD)
                parts.append(content)
                cursor += len(content)
        slots = struct.pack(f"<{count}{char}", *placed)
        return b"".join(
            (
                _COUNT.pack(count),
                nulls.to_bytes(bits, "little"),
                slots.ljust(slots_bytes, b"\x00"),
                *parts,
            )
        )

    return encode
