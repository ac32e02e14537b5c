"""Arrow types of columns, and conversion of their values to and from Python."""

from __future__ import annotations

import pickle
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from queryable_state.streaming.runtime.pickling import pickled
from queryable_state.wire.errors import InvalidRequestError, SerializationError
from queryable_state.wire.rows import row_maker, row_values
from queryable_state.wire.schema.instant import Instant
from queryable_state.wire.schema.type_serializer import TypeSerializer
from queryable_state.wire.schema.types import Field, Kind, TypeInfo, Types
from queryable_state.wire.values.serialized import SerializedValue, deserialized, serialized

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_BIG_DEC = Types.BIG_DEC()
_SCALARS = {
    Kind.BOOLEAN: pa.bool_(),
    Kind.BYTE: pa.int8(),
    Kind.SHORT: pa.int16(),
    Kind.INT: pa.int32(),
    Kind.LONG: pa.int64(),
    Kind.FLOAT: pa.float32(),
    Kind.DOUBLE: pa.float64(),
    Kind.STRING: pa.string(),
    Kind.BINARY: pa.binary(),
    Kind.DATE: pa.date32(),
    Kind.TIMESTAMP: pa.timestamp("us", tz="UTC"),
    Kind.TIMESTAMP_NTZ: pa.timestamp("us"),
    # Spark's TIME columns have nanoseconds.
    Kind.TIME: pa.time64("ns"),
}
_CONVERTED = {
    # Arrow and Spark see pickled and serialized values as bytes, an instant as a timestamp, and a
    # BIG_INT as a decimal.
    Kind.PICKLED: pa.binary(),
    Kind.CUSTOM: pa.binary(),
    Kind.INSTANT: _SCALARS[Kind.TIMESTAMP],
    Kind.BIG_INT: pa.decimal128(38, 0),
}
_KINDS = {arrow: kind for kind, arrow in _SCALARS.items()} | {
    pa.time64("us"): Kind.TIME,
    pa.large_string(): Kind.STRING,
    pa.string_view(): Kind.STRING,
    pa.large_binary(): Kind.BINARY,
    pa.binary_view(): Kind.BINARY,
}


def field_names(info: TypeInfo) -> list[str]:
    """Field names of a ROW; f0, f1, ... for a TUPLE."""
    return [field.name or f"f{position}" for position, field in enumerate(info.fields)]


def arrow_type(info: TypeInfo) -> pa.DataType:
    """The Arrow type of a column."""
    match info:
        case TypeInfo(kind=Kind.DECIMAL):
            return pa.decimal128(info.precision, info.scale)
        case TypeInfo(kind=Kind.ROW | Kind.TUPLE):
            types = (arrow_type(field.type) for field in info.fields)
            return pa.struct(list(zip(field_names(info), types, strict=True)))
        case TypeInfo(kind=Kind.LIST, element=TypeInfo() as element):
            return pa.list_(arrow_type(element))
        case TypeInfo(kind=Kind.MAP, key=TypeInfo() as key, element=TypeInfo() as element):
            return pa.map_(arrow_type(key), arrow_type(element))
    return _CONVERTED.get(info.kind) or _SCALARS[info.kind]


def arrow_schema(fields: Sequence[Field]) -> pa.Schema:
    """The schema of columns with these names and types."""
    return pa.schema([pa.field(field.name, arrow_type(field.type)) for field in fields])


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
    match info:
        case TypeInfo(kind=Kind.PICKLED):
            return pickled
        case TypeInfo(kind=Kind.CUSTOM, serializer=TypeSerializer() as serializer):
            return lambda value: serialized(value, serializer, "value")
        case TypeInfo(kind=Kind.INSTANT):
            return Instant.to_datetime
        case TypeInfo(kind=Kind.BIG_INT):
            return Decimal
        case TypeInfo(kind=Kind.ROW | Kind.TUPLE):
            names = field_names(info)
            converters = [to_arrow_value(field.type) for field in info.fields]
            values_of = row_values(info, "value", SerializationError)

            def struct_of(value: Any) -> dict[str, Any]:
                return {
                    name: item if of is None else _given(item, of)
                    for name, item, of in zip(names, values_of(value), converters, strict=True)
                }

            return struct_of
        case TypeInfo(kind=Kind.LIST, element=TypeInfo() as element):
            of = to_arrow_value(element)
            return None if of is None else lambda value: [_given(item, of) for item in value]
        case TypeInfo(kind=Kind.MAP, key=TypeInfo() as key, element=TypeInfo() as element):
            of_key = to_arrow_value(key) or _same
            of_value = to_arrow_value(element) or _same
            return lambda value: [(of_key(k), _given(v, of_value)) for k, v in value.items()]
    return None


def _given(value: Any, convert: Callable[[Any], Any]) -> Any:
    return None if value is None else convert(value)


def _same(value: Any) -> Any:
    return value


def _shortest(value: Decimal) -> Decimal:
    """The number without trailing zeros after the point: BIG_DEC is a number, not a column's
    scale."""
    return Decimal(f"{value:f}".rstrip("0").rstrip("."))
