"""Keys with a timestamp outside of their row, so that they sort by it.

    timestamp first     timestamp (8) | row of the other columns
    timestamp last      row of the other columns | timestamp (8)

The timestamp is the last column of the key, a long; it is big-endian with its sign bit flipped.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

from queryable_state.server.native_state.rows.key_encoder import (
    VERSION,
    KeyEncoder,
    without_version,
)
from queryable_state.server.native_state.rows.spark_types import SparkKind, SparkType
from queryable_state.wire.errors import CorruptDataError, SerializationError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from queryable_state.server.native_state.rows.key_encoder import RowForm

_TIMESTAMP = struct.Struct(">Q")
_BIAS = 1 << 63


class TimestampKeyEncoder(KeyEncoder):
    """Keys whose last column is a timestamp, which stands outside of their row."""

    def __init__(self, struct_type: SparkType, form: RowForm) -> None:
        super().__init__(struct_type)
        fields = struct_type.fields
        if not fields or fields[-1].type.kind != SparkKind.LONG:
            raise CorruptDataError(f"keys of {struct_type} do not end with a timestamp")
        self._codec = form.whole(struct_type.select(range(len(fields) - 1)))

    def _row(self, values: Sequence[Any]) -> bytes:
        return VERSION + self._codec.encode(values)

    def _values(self, row: bytes, timestamp: bytes) -> tuple[Any, ...]:
        if len(timestamp) != _TIMESTAMP.size:
            raise CorruptDataError("a raw key has no timestamp")
        (biased,) = _TIMESTAMP.unpack(timestamp)
        return (*self._codec.decode(without_version(row)), biased - _BIAS)


class TimestampFirstEncoder(TimestampKeyEncoder):
    """Keys that sort by their timestamp."""

    def encode_key(self, values: Sequence[Any]) -> bytes:
        """The raw key of these columns; raises SerializationError for other values."""
        return _timestamp(values[-1]) + self._row(values[:-1])

    def encode_prefix(self, values: Sequence[Any]) -> bytes:
        """The common prefix of the raw keys of one timestamp, or of all."""
        if len(values) > 1:
            return super().encode_prefix(values)
        return _timestamp(values[0]) if values else b""

    def decode_key(self, key: bytes) -> tuple[Any, ...]:
        """The columns of a raw key; raises CorruptDataError for other bytes."""
        return self._values(key[_TIMESTAMP.size :], key[: _TIMESTAMP.size])


class TimestampLastEncoder(TimestampKeyEncoder):
    """Keys that sort by timestamp among those with the same other columns."""

    def encode_key(self, values: Sequence[Any]) -> bytes:
        """The raw key of these columns; raises SerializationError for other values."""
        return self._row(values[:-1]) + _timestamp(values[-1])

    def encode_prefix(self, values: Sequence[Any]) -> bytes:
        """The common prefix of the raw keys with these columns, at any timestamp."""
        if len(values) != len(self.struct.fields) - 1:
            return super().encode_prefix(values)
        return self._row(values)

    def decode_key(self, key: bytes) -> tuple[Any, ...]:
        """The columns of a raw key; raises CorruptDataError for other bytes."""
        return self._values(key[: -_TIMESTAMP.size], key[-_TIMESTAMP.size :])


def _timestamp(value: Any) -> bytes:
    try:
        return _TIMESTAMP.pack(value + _BIAS)
    except (TypeError, struct.error):
        raise SerializationError(f"{value!r} is no timestamp of 64 bits") from None
