"""Kinds of types, and the names of those without parts."""

from __future__ import annotations

from enum import IntEnum


class Kind(IntEnum):
    """Kind of a type; numbers as in the proto."""

    BOOLEAN = 1
    BYTE = 2
    SHORT = 3
    INT = 4
    LONG = 5
    FLOAT = 6
    DOUBLE = 7
    DECIMAL = 8
    STRING = 9
    BINARY = 10
    DATE = 11
    TIMESTAMP = 12
    TIMESTAMP_NTZ = 13
    ROW = 14
    TUPLE = 15
    LIST = 16
    MAP = 17
    PICKLED = 18
    TIME = 19
    INSTANT = 20
    BIG_INT = 21
    CUSTOM = 22


SIMPLE_NAMES = {
    Kind.BOOLEAN: "boolean",
    Kind.BYTE: "tinyint",
    Kind.SHORT: "smallint",
    Kind.INT: "int",
    Kind.LONG: "bigint",
    Kind.FLOAT: "float",
    Kind.DOUBLE: "double",
    Kind.STRING: "string",
    Kind.BINARY: "binary",
    Kind.DATE: "date",
    Kind.TIMESTAMP: "timestamp",
    Kind.TIMESTAMP_NTZ: "timestamp_ntz",
    Kind.PICKLED: "pickled",
    Kind.TIME: "time(6)",
    Kind.INSTANT: "instant",
    Kind.BIG_INT: "big_int",
}


PYFLINK_NAMES = {
    Kind.BOOLEAN: "Boolean",
    Kind.BYTE: "Byte",
    Kind.SHORT: "Short",
    Kind.INT: "Integer",
    Kind.LONG: "Long",
    Kind.FLOAT: "Float",
    Kind.DOUBLE: "Double",
    Kind.STRING: "String",
    Kind.BINARY: "PrimitiveArrayTypeInfo<Byte>",
    Kind.DATE: "DateTypeInfo",
    Kind.TIME: "TimeTypeInfo",
    Kind.TIMESTAMP: "TimestampLtzTypeInfo",
    Kind.TIMESTAMP_NTZ: "TimestampTypeInfo",
    Kind.INSTANT: "Instant",
    Kind.BIG_INT: "BigInteger",
    Kind.PICKLED: "PickledByteArrayTypeInfo",
}
