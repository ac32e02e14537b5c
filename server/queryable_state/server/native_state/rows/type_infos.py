"""Types of the wire for Spark's types: how state of Spark is presented to queries.

| Spark | presented as |
|---|---|
| boolean, numbers, string, binary, date, timestamp, timestamp_ntz | the same |
| decimal(p,s) | DECIMAL(p, s) |
| time(0) to time(6) | TIME |
| time(7) to time(9) | LONG: nanoseconds since midnight |
| timestamp_ltz(9), timestamp_ntz(9) | ROW(time TIMESTAMP or TIMESTAMP_NTZ, nanoseconds SHORT) |
| year-month interval | INT: months |
| day-time interval | LONG: microseconds |
| calendar interval | ROW(months INT, days INT, microseconds LONG) |
| variant | ROW(value BINARY, metadata BINARY), Spark's encoding of variants |
| void | STRING, always null |
| array | LIST |
| map | MAP; LIST of ROW(key, value) if its keys contain what our keys cannot, such as arrays |
| struct | ROW; fields named alike get a number: `sum`, `sum_2`; a field without a name is `_1` |

In keys Spark's types are the same, except that maps, variants, calendar intervals, timestamps in
nanoseconds, void and strings of a collation other than UTF8_BINARY are refused: the wire has no
encoding or no hash of them. Every key, field and element may be null.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from queryable_state.server.native_state.rows.spark_types import (
    BINARY_COLLATION,
    SparkKind,
    SparkType,
    UnsupportedTypeError,
)
from queryable_state.wire.schema.type_model import Field, Kind, TypeInfo

if TYPE_CHECKING:
    from collections.abc import Iterable

_SCALARS = {
    SparkKind.BOOLEAN: Kind.BOOLEAN,
    SparkKind.BYTE: Kind.BYTE,
    SparkKind.SHORT: Kind.SHORT,
    SparkKind.INTEGER: Kind.INT,
    SparkKind.LONG: Kind.LONG,
    SparkKind.FLOAT: Kind.FLOAT,
    SparkKind.DOUBLE: Kind.DOUBLE,
    SparkKind.STRING: Kind.STRING,
    SparkKind.BINARY: Kind.BINARY,
    SparkKind.DATE: Kind.DATE,
    SparkKind.TIMESTAMP: Kind.TIMESTAMP,
    SparkKind.TIMESTAMP_NTZ: Kind.TIMESTAMP_NTZ,
    SparkKind.YEAR_MONTH_INTERVAL: Kind.INT,
    SparkKind.DAY_TIME_INTERVAL: Kind.LONG,
    SparkKind.VOID: Kind.STRING,
}
_NO_KEYS = (
    SparkKind.MAP,
    SparkKind.VARIANT,
    SparkKind.CALENDAR_INTERVAL,
    SparkKind.TIMESTAMP_NANOS,
    SparkKind.TIMESTAMP_NTZ_NANOS,
    SparkKind.VOID,
)
MICROSECOND_DIGITS = 6
"""Digits of the most precise `time` that is presented as TIME."""


def row_type_of(struct: SparkType) -> TypeInfo:
    """The ROW that presents a struct."""
    return type_info_of(struct)


def type_info_of(spark_type: SparkType) -> TypeInfo:
    """The type that presents a Spark type in values."""
    kind = spark_type.kind
    if kind in _SCALARS:
        return TypeInfo(_SCALARS[kind])
    match kind:
        case SparkKind.DECIMAL:
            return TypeInfo(Kind.DECIMAL, precision=spark_type.precision, scale=spark_type.scale)
        case SparkKind.TIME:
            precise = spark_type.precision > MICROSECOND_DIGITS
            return TypeInfo(Kind.LONG if precise else Kind.TIME)
        case SparkKind.TIMESTAMP_NANOS:
            return _row(("time", Kind.TIMESTAMP), ("nanoseconds", Kind.SHORT))
        case SparkKind.TIMESTAMP_NTZ_NANOS:
            return _row(("time", Kind.TIMESTAMP_NTZ), ("nanoseconds", Kind.SHORT))
        case SparkKind.CALENDAR_INTERVAL:
            return _row(("months", Kind.INT), ("days", Kind.INT), ("microseconds", Kind.LONG))
        case SparkKind.VARIANT:
            return _row(("value", Kind.BINARY), ("metadata", Kind.BINARY))
        case SparkKind.ARRAY:
            return TypeInfo(Kind.LIST, element=type_info_of(given(spark_type.element)))
        case SparkKind.MAP:
            return _map(spark_type)
        case _:
            types = [type_info_of(field.type) for field in spark_type.fields]
            return _named(spark_type, types)


def key_type_of(spark_type: SparkType) -> TypeInfo:
    """The nullable type that presents a Spark type in keys; raises UnsupportedTypeError."""
    if spark_type.kind in _NO_KEYS or (
        spark_type.kind == SparkKind.STRING and spark_type.collation != BINARY_COLLATION
    ):
        raise UnsupportedTypeError(
            f"keys that contain Spark's type {spark_type} cannot be looked up: group "
            "by another type"
        )
    if spark_type.kind == SparkKind.ARRAY:
        element = key_type_of(given(spark_type.element))
        return TypeInfo(Kind.LIST, element=element, nullable=True)
    if spark_type.kind != SparkKind.STRUCT:
        return replace(type_info_of(spark_type), nullable=True)
    types = [key_type_of(field.type) for field in spark_type.fields]
    return replace(_named(spark_type, types), nullable=True)


def is_presented_as_map(spark_map: SparkType) -> bool:
    """True if a map is presented as a MAP, false if as a LIST of its entries."""
    return _is_key(given(spark_map.key))


def given(spark_type: SparkType | None) -> SparkType:
    """A part that the shape of an array or map guarantees."""
    if spark_type is None:
        raise UnsupportedTypeError("an array of Spark needs an element type, a map two types")
    return spark_type


def _is_key(spark_type: SparkType) -> bool:
    if spark_type.kind == SparkKind.STRUCT:
        return bool(spark_type.fields) and all(_is_key(each.type) for each in spark_type.fields)
    is_collated = spark_type.collation != BINARY_COLLATION
    return not is_collated and spark_type.kind not in (*_NO_KEYS, SparkKind.ARRAY)


def _map(spark_map: SparkType) -> TypeInfo:
    key, value = type_info_of(given(spark_map.key)), type_info_of(given(spark_map.element))
    if is_presented_as_map(spark_map):
        return TypeInfo(Kind.MAP, key=key, element=value)
    entry = TypeInfo(Kind.ROW, fields=(Field("key", key), Field("value", value)))
    return TypeInfo(Kind.LIST, element=entry)


def _row(*fields: tuple[str, Kind]) -> TypeInfo:
    return TypeInfo(Kind.ROW, fields=tuple(Field(name, TypeInfo(kind)) for name, kind in fields))


def _named(struct: SparkType, types: Iterable[TypeInfo]) -> TypeInfo:
    names = distinct_names([field.name for field in struct.fields])
    return TypeInfo(Kind.ROW, fields=tuple(map(Field, names, types)))


def distinct_names(names: list[str]) -> list[str]:
    """The names, with a number behind those that came before, and `_1` for the first if empty."""
    distinct: list[str] = []
    taken = set(names)
    for position, name in enumerate(names, 1):
        wanted = name or f"_{position}"
        number = 1
        while wanted in distinct or (number > 1 and wanted in taken):
            number += 1
            wanted = f"{name or f'_{position}'}_{number}"
        distinct.append(wanted)
    return distinct
