"""Interface of codecs of rows: bytes that Spark stores, and values as the codecs of the wire take
them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from queryable_state.server.native_state.rows.spark_types import SparkType
    from queryable_state.wire.schema.type_model import TypeInfo


class RowCodec(Protocol):
    """Codec of the rows of one struct. Immutable; usable from every thread."""

    @property
    def struct(self) -> SparkType:
        """Spark's type of the rows."""

    @property
    def row_type(self) -> TypeInfo:
        """The ROW of all fields, as values present it."""

    def decode(self, data: bytes) -> tuple[Any, ...]:
        """The values of the fields; raises CorruptDataError for bytes that are no such row."""

    def encode(self, values: Sequence[Any]) -> bytes:
        """The bytes that Spark writes for these values; raises SerializationError for others."""
