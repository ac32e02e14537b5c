"""Encoding of Spark's value rows as the values that queries read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from queryable_state.wire.schema.type_model import Kind, TypeInfo
from queryable_state.wire.values.value_codec import ValueCodec

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from queryable_state.server.native_state.operators.layouts.key_columns import Columns
    from queryable_state.wire.schema.type_model import Field

PRIMITIVE_FIELD = "value"
"""Name of the only field of the row that Spark's encoders of primitive types write."""

_COMPOSITE = (Kind.ROW, Kind.TUPLE)


class RowValues:
    """Values, or list elements, that are rows of some fields. Immutable.

    A row of one scalar field named `value` is the scalar itself, as for Spark's primitive encoders.
    """

    __slots__ = ("_value_of", "_values", "encode_element", "value_type")

    encode_element: Callable[..., bytes]
    """`encode_element(row, timestamp_ms=None)` returns the row as an encoded list of one."""

    def __init__(self, fields: Sequence[Field]) -> None:
        self._value_of: Callable[[Columns], Any] = _whole
        self.value_type = TypeInfo(Kind.ROW, fields=tuple(fields))
        if is_primitive(fields):
            self._value_of, self.value_type = _first, fields[0].type
        self._values = ValueCodec.of(self.value_type)
        lists = ValueCodec.of(TypeInfo(Kind.LIST, element=self.value_type))
        value_of = self._value_of

        def encode_element(row: Columns, timestamp_ms: int | None = None) -> bytes:
            return lists.encode([value_of(row)], timestamp_ms)

        self.encode_element = encode_element

    def encode(self, row: Columns, timestamp_ms: int | None = None) -> bytes:
        """The encoded value; a null scalar is encoded as a null."""
        value = self._value_of(row)
        if value is None:
            return self._values.null
        return self._values.encode(value, timestamp_ms)


def is_primitive(fields: Sequence[Field]) -> bool:
    """True for the row of a primitive encoder: one scalar field named `value`."""
    return (
        len(fields) == 1
        and fields[0].name == PRIMITIVE_FIELD
        and fields[0].type.kind not in _COMPOSITE
    )


def _whole(row: Columns) -> Any:
    return row


def _first(row: Columns) -> Any:
    return row[0]
