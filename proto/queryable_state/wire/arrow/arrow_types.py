"""Arrow types of columns. Imported only where the package pyarrow is installed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from queryable_state.wire.schema.type_model import Field, Kind, TypeInfo

if TYPE_CHECKING:
    from collections.abc import Sequence

SCALARS = {
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
"""The types whose Arrow values are those of Python."""

_CONVERTED = {
    # Arrow and Spark see pickled and serialized values as bytes, an instant as a timestamp, and a
    # BIG_INT as a decimal.
    Kind.PICKLED: pa.binary(),
    Kind.CUSTOM: pa.binary(),
    Kind.INSTANT: SCALARS[Kind.TIMESTAMP],
    Kind.BIG_INT: pa.decimal128(38, 0),
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
    return _CONVERTED.get(info.kind) or SCALARS[info.kind]


def arrow_schema(fields: Sequence[Field]) -> pa.Schema:
    """The schema of columns with these names and types."""
    return pa.schema([pa.field(field.name, arrow_type(field.type)) for field in fields])
