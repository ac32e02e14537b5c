"""Keys that are found whole, by their leading columns, or in the order of numbers.

    no prefix           row of all columns
    prefix scan         size (4) | row of the leading columns | row of the others
    range scan          size (4) | row of the ordering columns | row of the others, perhaps of none

The size counts the first row with its version byte, little-endian.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

from queryable_state.server.native_state.rows.key_encoder import (
    VERSION,
    KeyEncoder,
    without_version,
)
from queryable_state.wire.errors import CorruptDataError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from queryable_state.server.native_state.rows.key_encoder import RowForm
    from queryable_state.server.native_state.rows.spark_types import SparkType

_SIZE = struct.Struct("<i")


class NoPrefixEncoder(KeyEncoder):
    """Encoder of keys for point look-ups only: `NoPrefixKeyStateEncoderSpec`."""

    def __init__(self, struct_type: SparkType, form: RowForm) -> None:
        super().__init__(struct_type)
        self._codec = form.whole(struct_type)

    def encode_key(self, values: Sequence[Any]) -> bytes:
        """The raw key of these columns; raises SerializationError for other values."""
        return VERSION + self._codec.encode(values)

    def decode_key(self, key: bytes) -> tuple[Any, ...]:
        """The columns of a raw key; raises CorruptDataError for other bytes."""
        return self._codec.decode(without_version(key))


class PrefixScanEncoder(KeyEncoder):
    """Keys that are found by their leading columns."""

    def __init__(self, struct_type: SparkType, columns: int, form: RowForm) -> None:
        super().__init__(struct_type)
        width = len(struct_type.fields)
        if not 0 < columns < width:
            raise CorruptDataError(f"a prefix of {columns} of {width} columns is none")
        self._columns = columns
        self._first = form.prefix(struct_type.select(range(columns)))
        self._rest = form.whole(struct_type.select(range(columns, width)))

    def encode_key(self, values: Sequence[Any]) -> bytes:
        """The raw key of these columns; raises SerializationError for other values."""
        prefix = self.encode_prefix(values[: self._columns])
        return prefix + VERSION + self._rest.encode(values[self._columns :])

    def encode_prefix(self, values: Sequence[Any]) -> bytes:
        """The common prefix of the raw keys with these columns of the prefix."""
        if len(values) != self._columns:
            return super().encode_prefix(values)
        return _sized(VERSION + self._first.encode(values))

    def decode_key(self, key: bytes) -> tuple[Any, ...]:
        """The columns of a raw key; raises CorruptDataError for other bytes."""
        first, rest = _split(key)
        return self._first.decode(without_version(first)) + self._rest.decode(without_version(rest))


class RangeScanEncoder(KeyEncoder):
    """Keys that sort by some of their columns, which are numbers."""

    def __init__(self, struct_type: SparkType, ordinals: Sequence[int], form: RowForm) -> None:
        super().__init__(struct_type)
        width = len(struct_type.fields)
        self._ordinals = tuple(ordinals)
        if not ordinals or not {*ordinals} <= {*range(width)} or len({*ordinals}) < len(ordinals):
            raise CorruptDataError(f"{list(ordinals)} are no ordering columns of {width}")
        self._ordering = form.ordering(struct_type.select(ordinals))
        self._others = [each for each in range(width) if each not in ordinals]
        self._rest = form.whole(struct_type.select(self._others))

    def encode_key(self, values: Sequence[Any]) -> bytes:
        """The raw key of these columns; raises SerializationError for other values."""
        prefix = self.encode_prefix([values[each] for each in self._ordinals])
        return prefix + VERSION + self._rest.encode([values[each] for each in self._others])

    def encode_prefix(self, values: Sequence[Any]) -> bytes:
        """The common prefix of the raw keys with these ordering columns."""
        if len(values) != len(self._ordinals):
            return super().encode_prefix(values)
        return _sized(VERSION + self._ordering.encode(values))

    def decode_key(self, key: bytes) -> tuple[Any, ...]:
        """The columns of a raw key; raises CorruptDataError for other bytes."""
        first, rest = _split(key)
        values: list[Any] = [None] * len(self.struct.fields)
        ordering = self._ordering.decode(without_version(first))
        for position, value in zip(self._ordinals, ordering, strict=True):
            values[position] = value
        others = self._rest.decode(without_version(rest))
        for position, value in zip(self._others, others, strict=True):
            values[position] = value
        return tuple(values)


def _sized(row: bytes) -> bytes:
    return _SIZE.pack(len(row)) + row


def _split(key: bytes) -> tuple[bytes, bytes]:
    """The first row of a raw key and the rest."""
    if len(key) >= _SIZE.size:
        end = _SIZE.size + _SIZE.unpack_from(key)[0]
        if _SIZE.size <= end <= len(key):
            return key[_SIZE.size : end], key[end:]
    raise CorruptDataError(f"a raw key of {len(key)} bytes does not begin with a row and its size")
