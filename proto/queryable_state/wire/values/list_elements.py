"""Elements of an encoded LIST value: codec of single elements, their number, and cutting."""

from __future__ import annotations

import struct
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from queryable_state.wire.errors import CorruptDataError
from queryable_state.wire.schema.type_model import given
from queryable_state.wire.values.payload import decoder, encoder
from queryable_state.wire.values.scalar_codecs import (
    NATIVE_FORMATS,
    Decode,
    PickleMode,
    packed_count,
)
from queryable_state.wire.values.value_codec import read_header

if TYPE_CHECKING:
    from collections.abc import Sequence

    from queryable_state.wire.schema.type_model import TypeInfo
    from queryable_state.wire.values.pickled import Pickle
    from queryable_state.wire.values.value_codec import ValueCodec

_COUNT = struct.Struct("<I")


def element_count(chunk: bytes) -> int:
    """The number of elements that an encoded LIST value states; decodes no element."""
    try:
        count: int = _COUNT.unpack_from(chunk, read_header(chunk).payload_offset)[0]
    except struct.error:
        raise CorruptDataError(f"a list chunk of {len(chunk)} bytes has no whole count") from None
    return count


def has_fixed_width(element: TypeInfo) -> bool:
    """True if `cut` finds elements of the type by their position, without reading any."""
    return element.kind in NATIVE_FORMATS


def cut(chunk: bytes, first: int, last: int, element: TypeInfo) -> bytes:
    """The LIST value with only the elements from position `first` to before `last`.

    `element` is the type of the elements under the schema version of the chunk; no element is
    null. Elements of a fixed width are not read, others only to find where they end.
    """
    offset = read_header(chunk).payload_offset
    count = element_count(chunk)
    begin = offset + _COUNT.size + (count + 7) // 8
    if not 0 <= first <= last <= count or any(chunk[offset + _COUNT.size : begin]):
        raise CorruptDataError(f"a list chunk of {count} elements has no {first} to {last}")
    try:
        begin = _skip(chunk, begin, first, element)
        end = _skip(chunk, begin, last - first, element)
    except (ValueError, struct.error, OverflowError) as error:
        raise CorruptDataError(f"an element of a list chunk cannot be read: {error}") from error
    if end > len(chunk):
        raise CorruptDataError(f"a list chunk ends before its element {last - 1}")
    kept = last - first
    return b"".join((chunk[:offset], _COUNT.pack(kept), bytes((kept + 7) // 8), chunk[begin:end]))


def _skip(chunk: bytes, offset: int, count: int, element: TypeInfo) -> int:
    """The offset behind `count` elements."""
    native = NATIVE_FORMATS.get(element.kind)
    if native is not None:
        return offset + count * struct.calcsize(f"<{native}")
    decode = _element_decoder(element)
    for _ in range(count):
        _, offset = decode(chunk, offset)
    return offset


@lru_cache(maxsize=256)
def _element_decoder(element: TypeInfo) -> Decode:
    return decoder(element, PickleMode())


class ElementCodec:
    """Codec of single elements of the LIST type of a `ValueCodec`; no element is null.

    `pickler` and `unpickle` as in `ValueCodec`.
    """

    __slots__ = ("_decode", "_encode", "_header", "_list_type")

    def __init__(
        self, lists: ValueCodec, *, pickler: Pickle | None = None, unpickle: bool = False
    ) -> None:
        mode = PickleMode(dump=pickler, load=unpickle)
        self._list_type = lists.type_info
        self._header = lists.header
        element = given(self._list_type.element)
        self._encode = encoder(element, "element", mode)
        self._decode = decoder(element, mode)

    def encode(self, value: Any) -> bytes:
        """Encodes one element; raises SerializationError for None or a value of another type."""
        return self._encode(value)

    def decode(self, data: bytes) -> Any:
        """Decodes one element."""
        try:
            value, end = self._decode(data, 0)
        except (ValueError, struct.error, OverflowError) as error:
            raise CorruptDataError(f"{len(data)} bytes are not an element: {error}") from error
        if end != len(data):
            raise CorruptDataError(f"{len(data) - end} bytes follow an element")
        return value

    def join(self, elements: Sequence[bytes]) -> bytes:
        """The bytes of the list of these encoded elements, as the `ValueCodec` writes them."""
        count = packed_count(len(elements), elements, self._list_type, "value")
        return b"".join((self._header, count, bytes((len(elements) + 7) // 8), *elements))
