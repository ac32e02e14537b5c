"""Types of Arrow columns, and conversion of their values to and from Python."""

from __future__ import annotations

import pickle
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from queryable_state.streaming.runtime.pickling import pickled
from queryable_state.wire.arrow import arrow_values
from queryable_state.wire.arrow.arrow_types import SCALARS, field_names
from queryable_state.wire.errors import InvalidRequestError
from queryable_state.wire.rows import row_maker
from queryable_state.wire.schema.instant import Instant
from queryable_state.wire.schema.type_serializer import TypeSerializer
from queryable_state.wire.schema.types import Field, Kind, TypeInfo, Types
from queryable_state.wire.values.serialized import SerializedValue, deserialized

if TYPE_CHECKING:
    from collections.abc import Callable

_BIG_DEC = Types.BIG_DEC()
_KINDS = {arrow: kind for kind, arrow in SCALARS.items()} | {
    pa.time64("us"): Kind.TIME,
    pa.large_string(): Kind.STRING,
    pa.string_view(): Kind.STRING,
    pa.large_binary(): Kind.BINARY,
    pa.binary_view(): Kind.BINARY,
}


def type_of_arrow(arrow: pa.DataType) -> TypeInfo:
    """The type of a column's values; raises InvalidRequestError if there is none."""
    if pa.types.is_dictionary(arrow):
        return type_of_arrow(arrow.value_type)
    if pa.types.is_timestamp(arrow):
        return TypeInfo(Kind.TIMESTAMP_NTZ if arrow.tz is None else Kind.TIMESTAMP)
    if pa.types.is_decimal128(arrow):
        return TypeInfo(Kind.DECIMAL, precision=arrow.precision, scale=arrow.scale)
    if pa.types.is_struct(arrow):
        fields = tuple(Field(field.name, type_of_arrow(field.type)) for field in arrow)
        return TypeInfo(Kind.ROW, fields=fields)
    if pa.types.is_list(arrow) or pa.types.is_large_list(arrow):
        return TypeInfo(Kind.LIST, element=type_of_arrow(arrow.value_type))
    if pa.types.is_map(arrow):
        return TypeInfo(
            Kind.MAP, key=type_of_arrow(arrow.key_type), element=type_of_arrow(arrow.item_type)
        )
    kind = _KINDS.get(arrow)
    if kind is None:
        raise InvalidRequestError(
            f"columns of Arrow type {arrow} are not supported: cast the column to one of Types.*"
        )
    return TypeInfo(kind)


def to_python(column: pa.Array, info: TypeInfo) -> list[Any]:
    """The values of a column for Python functions; null is None."""
    values: list[Any] = column.to_pylist()
    convert = from_arrow_value(info)
    if convert is None:
        return values
    return [None if value is None else convert(value) for value in values]


def from_arrow_value(info: TypeInfo) -> Callable[[Any], Any] | None:
    """Converter from a value of `to_pylist` to a function's argument; None: no conversion."""
    match info:
        case TypeInfo(kind=Kind.PICKLED):
            return pickle.loads
        case TypeInfo(kind=Kind.CUSTOM, serializer=TypeSerializer() as serializer):
            return lambda value: deserialized(value, serializer)
        case TypeInfo(kind=Kind.CUSTOM):
            return SerializedValue
        case TypeInfo(kind=Kind.INSTANT):
            return Instant.of_datetime
        case TypeInfo(kind=Kind.BIG_INT):
            return int
        case TypeInfo(kind=Kind.DECIMAL) if info == _BIG_DEC:
            return _shortest
        case TypeInfo(kind=Kind.ROW | Kind.TUPLE):
            names = field_names(info)
            converters = [from_arrow_value(field.type) or _same for field in info.fields]
            make = row_maker(info)
            pairs = list(zip(names, converters, strict=True))
            return lambda value: make([_given(value[name], of) for name, of in pairs])
        case TypeInfo(kind=Kind.LIST, element=TypeInfo() as element):
            of = from_arrow_value(element)
            return None if of is None else lambda value: [_given(item, of) for item in value]
        case TypeInfo(kind=Kind.MAP, key=TypeInfo() as key, element=TypeInfo() as element):
            of_key = from_arrow_value(key) or _same
            of_value = from_arrow_value(element) or _same
            return lambda value: {of_key(k): _given(v, of_value) for k, v in value}
    return None


def to_arrow_value(info: TypeInfo) -> Callable[[Any], Any] | None:
    """Converter from a function's output to a value for Arrow; None: no conversion."""
    return arrow_values.to_arrow_value(info, pickled)


def _given(value: Any, convert: Callable[[Any], Any]) -> Any:
    return None if value is None else convert(value)


def _same(value: Any) -> Any:
    return value


def _shortest(value: Decimal) -> Decimal:
    """The number without trailing zeros after the point: BIG_DEC is a number, not a column's
    scale."""
    return Decimal(f"{value:f}".rstrip("0").rstrip("."))
