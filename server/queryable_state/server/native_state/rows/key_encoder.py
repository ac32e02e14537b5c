"""Interface of the encoders of state keys, and the forms of rows that they are made of."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Protocol

from queryable_state.server.native_state.rows.spark_types import SparkType, UnsupportedTypeError
from queryable_state.server.native_state.rows.type_infos import row_type_of
from queryable_state.wire.errors import CorruptDataError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from queryable_state.wire.schema.type_model import TypeInfo

VERSION = b"\x00"
"""The byte that state stores put before a row."""


class KeyRows(Protocol):
    """Codec of one of the rows of a raw key. Raises as `RowCodec` does."""

    def encode(self, values: Sequence[Any]) -> bytes:
        """Encodes the values of all key columns as Spark does."""

    def decode(self, data: bytes) -> tuple[Any, ...]:
        """Decodes what `encode` has written."""


class RowForm(Protocol):
    """A form of rows in state stores: UnsafeRow or Avro. Without version bytes."""

    def whole(self, struct: SparkType) -> KeyRows:
        """Rows of whole keys, and of the columns behind a prefix."""

    def prefix(self, struct: SparkType) -> KeyRows:
        """Rows of the columns before others."""

    def ordering(self, struct: SparkType) -> KeyRows:
        """Rows of numbers that compare as bytes; raises UnsupportedTypeError for other types."""


class KeyEncoder(ABC):
    """Codec of the keys of one store or column family. Immutable; usable from every thread.

    Keys are the values of all columns, in the order of the schema.
    """

    def __init__(self, struct_type: SparkType) -> None:
        self.struct = struct_type
        self.row_type: TypeInfo = row_type_of(struct_type)
        """The ROW of all columns."""

    @abstractmethod
    def encode_key(self, values: Sequence[Any]) -> bytes:
        """The raw key of these columns; raises SerializationError for other values."""

    @abstractmethod
    def decode_key(self, key: bytes) -> tuple[Any, ...]:
        """The columns of a raw key; raises CorruptDataError for other bytes."""

    def encode_prefix(self, values: Sequence[Any]) -> bytes:
        """The common prefix of the raw keys with these leading columns.

        Prefix scan: the columns of the prefix. Range scan: all ordering columns. Timestamp first:
        none, or the timestamp alone. Timestamp last: all columns but the timestamp. Raises
        UnsupportedTypeError if the encoder has no such prefix.
        """
        raise UnsupportedTypeError(
            f"keys of {self.struct} have no prefix of {len(values)} columns: give whole keys"
        )


def versioned(row: bytes) -> bytes:
    """A row with the version byte that state stores put before it."""
    return VERSION + row


def without_version(data: bytes) -> bytes:
    """The row behind a version byte; raises CorruptDataError for another version."""
    if data[:1] != VERSION:
        raise CorruptDataError(
            f"a row of {len(data)} bytes has version {data[:1].hex() or 'none'} instead of 0"
        )
    return data[1:]
