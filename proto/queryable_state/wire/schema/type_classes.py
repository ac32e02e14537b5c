"""PyFlink's classes of types: constructors of `TypeInfo`, and classes for `isinstance`.

Every type is a `TypeInfo`. `RowTypeInfo([Types.INT()])` makes one, and
`isinstance(info, RowTypeInfo)` tests its kind.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Any, ClassVar

from queryable_state.wire.schema.type_model import Kind, TypeInfo
from queryable_state.wire.schema.types import Types

if TYPE_CHECKING:
    from collections.abc import Sequence

TypeInformation = TypeInfo


class BasicType(Enum):
    """PyFlink's basic types."""

    STRING = "String"
    BYTE = "Byte"
    BOOLEAN = "Boolean"
    SHORT = "Short"
    INT = "Integer"
    LONG = "Long"
    FLOAT = "Float"
    DOUBLE = "Double"
    CHAR = "Char"
    BIG_INT = "BigInteger"
    BIG_DEC = "BigDecimal"
    INSTANT = "Instant"


class _TypeClass(type):
    """A class whose instances are the types of its kinds."""

    kinds: frozenset[Kind]

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, TypeInfo) and instance.kind in cls.kinds


class BasicTypeInfo(metaclass=_TypeClass):
    """Numbers, booleans, strings and instants."""

    kinds: ClassVar = frozenset(
        (
            Kind.STRING,
            Kind.BYTE,
            Kind.BOOLEAN,
            Kind.SHORT,
            Kind.INT,
            Kind.LONG,
            Kind.FLOAT,
            Kind.DOUBLE,
            Kind.BIG_INT,
            Kind.DECIMAL,
            Kind.INSTANT,
        )
    )

    def __new__(cls, basic_type: BasicType) -> Any:
        return getattr(Types, basic_type.name)()

    STRING_TYPE_INFO = staticmethod(Types.STRING)
    BOOLEAN_TYPE_INFO = staticmethod(Types.BOOLEAN)
    BYTE_TYPE_INFO = staticmethod(Types.BYTE)
    SHORT_TYPE_INFO = staticmethod(Types.SHORT)
    INT_TYPE_INFO = staticmethod(Types.INT)
    LONG_TYPE_INFO = staticmethod(Types.LONG)
    FLOAT_TYPE_INFO = staticmethod(Types.FLOAT)
    DOUBLE_TYPE_INFO = staticmethod(Types.DOUBLE)
    CHAR_TYPE_INFO = staticmethod(Types.CHAR)
    BIG_INT_TYPE_INFO = staticmethod(Types.BIG_INT)
    BIG_DEC_TYPE_INFO = staticmethod(Types.BIG_DEC)
    INSTANT_TYPE_INFO = staticmethod(Types.INSTANT)


class SqlTimeTypeInfo(metaclass=_TypeClass):
    """Dates, times and timestamps."""

    kinds: ClassVar = frozenset((Kind.DATE, Kind.TIME, Kind.TIMESTAMP_NTZ))

    DATE = staticmethod(Types.SQL_DATE)
    TIME = staticmethod(Types.SQL_TIME)
    TIMESTAMP = staticmethod(Types.SQL_TIMESTAMP)


class RowTypeInfo(metaclass=_TypeClass):
    """Rows; without names the fields are f0, f1, ..."""

    kinds: ClassVar = frozenset((Kind.ROW,))

    def __new__(cls, field_types: Sequence[Any], field_names: Sequence[str] | None = None) -> Any:
        if field_names is None:
            return Types.ROW(field_types)
        return Types.ROW_NAMED(field_names, field_types)


class TupleTypeInfo(metaclass=_TypeClass):
    """Tuples."""

    kinds: ClassVar = frozenset((Kind.TUPLE,))

    def __new__(cls, field_types: Sequence[Any]) -> Any:
        return Types.TUPLE(field_types)


class ListTypeInfo(metaclass=_TypeClass):
    """Lists and arrays."""

    kinds: ClassVar = frozenset((Kind.LIST,))

    def __new__(cls, element_type: Any) -> Any:
        return Types.LIST(element_type)


class PrimitiveArrayTypeInfo(metaclass=_TypeClass):
    """`bytes`, and lists of numbers or booleans."""

    kinds: ClassVar = frozenset((Kind.BINARY, Kind.LIST))

    def __new__(cls, element_type: Any) -> Any:
        return Types.PRIMITIVE_ARRAY(element_type)


class BasicArrayTypeInfo(metaclass=_TypeClass):
    """Lists of numbers, booleans or strings."""

    kinds: ClassVar = frozenset((Kind.LIST,))

    def __new__(cls, element_type: Any) -> Any:
        return Types.BASIC_ARRAY(element_type)


class ObjectArrayTypeInfo(metaclass=_TypeClass):
    """Lists."""

    kinds: ClassVar = frozenset((Kind.LIST,))

    def __new__(cls, element_type: Any) -> Any:
        return Types.OBJECT_ARRAY(element_type)


class MapTypeInfo(metaclass=_TypeClass):
    """Maps."""

    kinds: ClassVar = frozenset((Kind.MAP,))

    def __new__(cls, key_type_info: Any, value_type_info: Any) -> Any:
        return Types.MAP(key_type_info, value_type_info)


class PickledBytesTypeInfo(metaclass=_TypeClass):
    """Pickled objects."""

    kinds: ClassVar = frozenset((Kind.PICKLED,))

    def __new__(cls) -> Any:
        return Types.PICKLED_BYTE_ARRAY()
