"""Conversion of `TypeInfo` to Spark types."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import types as spark_types

from queryable_state.wire.schema.types import Kind, TypeInfo

if TYPE_CHECKING:
    from collections.abc import Iterable

    from queryable_state.wire.schema.types import Field

_SIMPLE: dict[Kind, type[spark_types.DataType]] = {
    Kind.BOOLEAN: spark_types.BooleanType,
    Kind.BYTE: spark_types.ByteType,
    Kind.SHORT: spark_types.ShortType,
    Kind.INT: spark_types.IntegerType,
    Kind.LONG: spark_types.LongType,
    Kind.FLOAT: spark_types.FloatType,
    Kind.DOUBLE: spark_types.DoubleType,
    Kind.STRING: spark_types.StringType,
    Kind.BINARY: spark_types.BinaryType,
    Kind.DATE: spark_types.DateType,
    Kind.TIMESTAMP: spark_types.TimestampType,
    Kind.TIMESTAMP_NTZ: spark_types.TimestampNTZType,
    Kind.PICKLED: spark_types.BinaryType,
    Kind.CUSTOM: spark_types.BinaryType,
    Kind.TIME: spark_types.TimeType,
    Kind.INSTANT: spark_types.TimestampType,
}


def data_type(info: TypeInfo) -> spark_types.DataType:
    """The Spark type of `info`. A tuple is a struct of f0, f1 ...; a pickle is binary."""
    match info.kind:
        case Kind.DECIMAL:
            return spark_types.DecimalType(info.precision, info.scale)
        case Kind.BIG_INT:
            return spark_types.DecimalType(38, 0)
        case Kind.ROW:
            return schema(info.fields)
        case Kind.TUPLE:
            return spark_types.StructType(
                [
                    spark_types.StructField(f"f{number}", data_type(field.type))
                    for number, field in enumerate(info.fields)
                ]
            )
        case Kind.LIST:
            assert info.element is not None
            return spark_types.ArrayType(data_type(info.element))
        case Kind.MAP:
            assert info.key is not None
            assert info.element is not None
            return spark_types.MapType(data_type(info.key), data_type(info.element))
        case _:
            return _SIMPLE[info.kind]()


def schema(fields: Iterable[Field]) -> spark_types.StructType:
    """The Spark schema of columns."""
    return spark_types.StructType(
        [spark_types.StructField(field.name, data_type(field.type)) for field in fields]
    )


def is_hashable(info: TypeInfo) -> bool:
    """True if Spark's `xxhash64` accepts the type: it contains no map at any depth."""
    inner = [field.type for field in info.fields]
    if info.element is not None:
        inner.append(info.element)
    return info.kind != Kind.MAP and all(map(is_hashable, inner))
