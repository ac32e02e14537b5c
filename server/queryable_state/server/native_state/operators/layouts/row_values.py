"""Encoding of Spark's rows as the values, or the elements of lists, that queries read."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from queryable_state.wire.schema.type_model import Kind, TypeInfo
from queryable_state.wire.values.value_codec import ValueCodec, with_timestamp

if TYPE_CHECKING:
    from collections.abc import Sequence

    from queryable_state.wire.schema.type_model import Field

PRIMITIVE_FIELD = "value"
"""Name of the only field of the row that Spark's encoders of primitive types write."""

ToPayload = Callable[[Any], bytes | None]
"""`payload(row)` returns the encoded row without a value's header; None for a null."""

_COMPOSITE = (Kind.ROW, Kind.TUPLE)
_ONE_ELEMENT = b"\x01\x00\x00\x00"


class RowValues:
    """Values that are rows of some fields. Immutable.

    A row of one scalar field named `value` is the scalar itself, as for Spark's primitive encoders.
    """

    __slots__ = ("_element", "_header", "_list_header", "_null", "_payload", "value_type")

    def __init__(
        self, fields: Sequence[Field], payload: ToPayload, element: Callable[[Any], bytes]
    ) -> None:
        """`payload` and `element` encode the same form of rows, whatever it is.

        `element(row)` returns null bits of one element and its payload, as a LIST has them.
        """
        self.value_type = value_type_of(fields)
        values = ValueCodec.of(self.value_type)
        self._header, self._null = values.header, values.null
        lists = ValueCodec.of(TypeInfo(Kind.LIST, element=self.value_type))
        self._list_header = lists.header + _ONE_ELEMENT
        self._payload = payload
        self._element = element

    def encode(self, row: Any, timestamp_ms: int | None = None) -> bytes:
        """The encoded value; a null scalar is encoded as a null."""
        payload = self._payload(row)
        if payload is None:
            return self._null
        value = self._header + payload
        return value if timestamp_ms is None else with_timestamp(value, timestamp_ms)

    def encode_element(self, row: Any, timestamp_ms: int | None = None) -> bytes:
        """The row as an encoded list of one element."""
        value = self._list_header + self._element(row)
        return value if timestamp_ms is None else with_timestamp(value, timestamp_ms)


def values_of_columns(
    fields: Sequence[Field], columns_of: Callable[[Any], tuple[Any, ...]]
) -> RowValues:
    """Values of rows of which `columns_of(row)` returns the columns."""
    values = ValueCodec.of(value_type_of(fields))
    lists = ValueCodec.of(TypeInfo(Kind.LIST, element=values.type_info))
    begin, list_begin = len(values.header), len(lists.header) + len(_ONE_ELEMENT)
    is_scalar = is_primitive(fields)

    def value_of(row: Any) -> Any:
        columns = columns_of(row)
        return columns[0] if is_scalar else columns

    def payload(row: Any) -> bytes | None:
        value = value_of(row)
        return None if value is None else values.encode(value)[begin:]

    def element(row: Any) -> bytes:
        return lists.encode([value_of(row)])[list_begin:]

    return RowValues(fields, payload, element)


def value_type_of(fields: Sequence[Field]) -> TypeInfo:
    """The type of a value that is a row of these fields."""
    return fields[0].type if is_primitive(fields) else TypeInfo(Kind.ROW, fields=tuple(fields))


def is_primitive(fields: Sequence[Field]) -> bool:
    """True for the row of a primitive encoder: one scalar field named `value`."""
    return (
        len(fields) == 1
        and fields[0].name == PRIMITIVE_FIELD
        and fields[0].type.kind not in _COMPOSITE
    )
