"""The rows of raw keys in UnsafeRow form."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

from queryable_state.server.native_state.rows.range_columns import RangeColumn
from queryable_state.server.native_state.rows.spark_types import (
    SparkField,
    SparkKind,
    SparkType,
    struct_of,
)
from queryable_state.server.native_state.rows.unsafe_row import unsafe_row_codec
from queryable_state.wire.errors import CorruptDataError, SerializationError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from queryable_state.server.native_state.rows.key_encoder import KeyRows


class UnsafeForm:
    """A `RowForm` of UnsafeRows."""

    def whole(self, struct: SparkType) -> KeyRows:
        """Rows of whole keys, and of the columns behind a prefix."""
        return unsafe_row_codec(struct)

    def prefix(self, struct: SparkType) -> KeyRows:
        """Rows of the columns before others."""
        return unsafe_row_codec(struct)

    def ordering(self, struct: SparkType) -> KeyRows:
        """Rows of numbers that compare as bytes; raises UnsupportedTypeError for other types."""
        return _OrderingRows(struct)


UNSAFE_ROWS = UnsafeForm()
"""The form that Spark has unless its state encoding is set to another."""


class _OrderingRows:
    """UnsafeRows of binary fields, one for each number."""

    def __init__(self, struct_type: SparkType) -> None:
        self._columns = [RangeColumn(field.type) for field in struct_type.fields]
        binaries = [SparkField("", SparkType(SparkKind.BINARY)) for _ in self._columns]
        self._codec = unsafe_row_codec(struct_of(binaries))

    def encode(self, values: Sequence[Any]) -> bytes:
        """The bytes of these numbers; raises SerializationError for other values."""
        try:
            parts = [
                column.encode(value) for column, value in zip(self._columns, values, strict=True)
            ]
        except (TypeError, ValueError, OverflowError, struct.error) as problem:
            raise SerializationError(f"{values!r} are no ordering columns: {problem}") from None
        return self._codec.encode(parts)

    def decode(self, data: bytes) -> tuple[Any, ...]:
        """The numbers of the bytes; raises CorruptDataError for others."""
        parts = self._codec.decode(data)
        try:
            return tuple(
                column.decode(part) for column, part in zip(self._columns, parts, strict=True)
            )
        except (TypeError, ValueError, struct.error) as problem:
            raise CorruptDataError(f"{data.hex()} are no ordering columns: {problem}") from None
