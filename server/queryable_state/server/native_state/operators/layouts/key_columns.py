"""Keys made of columns: Spark's grouping columns, or those of a map's keys, as one key."""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING, Any

from queryable_state.wire.errors import CorruptDataError
from queryable_state.wire.keys.key_codec import KeyCodec
from queryable_state.wire.keys.store_keys import namespace_end
from queryable_state.wire.schema.type_model import Kind, TypeInfo

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from queryable_state.wire.schema.type_model import Field

Columns = tuple[Any, ...]
"""The values of some columns, in the order of their schema."""

NO_KEY = TypeInfo(Kind.INT)
"""Key type of a state without grouping columns; its only key is 0."""


class KeyColumns:
    """Codec of the keys that some columns make. Immutable.

    One column is the key itself; several are a ROW; for none the key is 0.
    """

    __slots__ = ("_codec", "_columns_of", "_key_of", "key_type", "width")

    def __init__(self, columns: Sequence[Field]) -> None:
        self.width = len(columns)
        """Number of columns."""
        self._columns_of: Callable[[Any], Columns | None] = tuple
        self._key_of: Callable[[Columns], Any] = tuple
        if len(columns) == 1:
            self.key_type = columns[0].type
            self._columns_of, self._key_of = _one_column, _only
        elif columns:
            self.key_type = TypeInfo(Kind.ROW, fields=tuple(columns))
        else:
            self.key_type = NO_KEY
            self._columns_of, self._key_of = _no_columns, _zero
        self._codec = KeyCodec(self.key_type)

    def with_signs(self, signs: int) -> KeyColumns:
        """The same, but the n-th zero of decoded columns is negative if bit n of `signs` is set.

        Encoded keys do not have the signs of zeros.
        """
        signed, columns_of = copy(self), self._columns_of

        def with_negatives(key: Any) -> Columns | None:
            columns = columns_of(key)
            bits = iter(format(signs, "b")[::-1])
            return None if columns is None else _negated(columns, bits)

        signed._columns_of = with_negatives
        return signed

    def encode(self, columns: Columns) -> bytes:
        """The encoded key of these columns."""
        return self._codec.encode(self._key_of(columns))

    def decode(self, key: bytes) -> Columns:
        """The columns of an encoded key; raises CorruptDataError unless a record can have it."""
        columns = self._columns_of(self._codec.decode_all(key))
        if columns is None:
            raise CorruptDataError(f"no record has the {self.key_type} key {key[:64].hex()}")
        return columns

    def wire_key(self, partition: int, columns: Columns) -> bytes:
        """The wire key of these columns in a partition."""
        return partition.to_bytes(2) + self.encode(columns)

    def columns(self, wire_key: bytes) -> Columns:
        """The columns of the wire key of a record."""
        return self.decode(wire_key[2:])

    def leading(self, record_key: bytes) -> tuple[Columns | None, int]:
        """The columns of the wire key that a store key begins with, and the end of the wire key.

        The columns are None for a key that no record has.
        """
        key, end = self._codec.decode(record_key, 2)
        return self._columns_of(key), end

    def split(self, record_key: bytes) -> tuple[Columns | None, bytes, bytes]:
        """Columns (None: no record has them), namespace and element of a whole store key."""
        columns, key_end = self.leading(record_key)
        end = namespace_end(record_key, key_end)
        return columns, record_key[key_end:end], record_key[end:]


def _negated(value: Any, bits: Iterator[str]) -> Any:
    if isinstance(value, float) and value == 0:
        return -0.0 if next(bits, "0") == "1" else value
    if isinstance(value, tuple | list):
        return tuple(_negated(each, bits) for each in value)
    return value


def _one_column(key: Any) -> Columns:
    return (key,)


def _only(columns: Columns) -> Any:
    return columns[0]


def _no_columns(key: Any) -> Columns | None:
    return None if key else ()


def _zero(_: Columns) -> int:
    return 0
