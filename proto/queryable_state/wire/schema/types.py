"""Factories of types with PyFlink's names, and conversion of Spark's types."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, overload

from queryable_state.wire.errors import InvalidRequestError
from queryable_state.wire.schema import ddl
from queryable_state.wire.schema.python_types import is_python_type, type_of_class
from queryable_state.wire.schema.serializer_formats import custom_type
from queryable_state.wire.schema.type_model import MAX_DEPTH, Field, Kind, TypeInfo
from queryable_state.wire.schema.type_serializer import TypeSerializer

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import date, datetime, time
    from decimal import Decimal

    from queryable_state.wire.schema.instant import Instant
    from queryable_state.wire.schema.type_variables import K, T, V

__all__ = ["MAX_DEPTH", "Field", "Kind", "TypeInfo", "Types", "type_info"]


_PRIMITIVES = frozenset(
    (
        Kind.BOOLEAN,
        Kind.BYTE,
        Kind.SHORT,
        Kind.INT,
        Kind.LONG,
        Kind.FLOAT,
        Kind.DOUBLE,
        Kind.STRING,
    )
)


class Types:
    """PyFlink's type vocabulary. Nested types may be given as `type_info` accepts them."""

    @staticmethod
    def BOOLEAN() -> TypeInfo[bool]:  # noqa: N802 - PyFlink's names
        """`bool`."""
        return TypeInfo(Kind.BOOLEAN)

    @staticmethod
    def BYTE() -> TypeInfo[int]:  # noqa: N802
        """8-bit signed `int`."""
        return TypeInfo(Kind.BYTE)

    @staticmethod
    def SHORT() -> TypeInfo[int]:  # noqa: N802
        """16-bit signed `int`."""
        return TypeInfo(Kind.SHORT)

    @staticmethod
    def INT() -> TypeInfo[int]:  # noqa: N802
        """32-bit signed `int`."""
        return TypeInfo(Kind.INT)

    @staticmethod
    def LONG() -> TypeInfo[int]:  # noqa: N802
        """64-bit signed `int`."""
        return TypeInfo(Kind.LONG)

    @staticmethod
    def FLOAT() -> TypeInfo[float]:  # noqa: N802
        """`float` rounded to 32 bits."""
        return TypeInfo(Kind.FLOAT)

    @staticmethod
    def DOUBLE() -> TypeInfo[float]:  # noqa: N802
        """`float`."""
        return TypeInfo(Kind.DOUBLE)

    @staticmethod
    def STRING() -> TypeInfo[str]:  # noqa: N802
        """`str`."""
        return TypeInfo(Kind.STRING)

    @staticmethod
    def CHAR() -> TypeInfo[str]:  # noqa: N802
        """`str`; the same as `STRING`."""
        return TypeInfo(Kind.STRING)

    @staticmethod
    def BINARY() -> TypeInfo[bytes]:  # noqa: N802
        """`bytes`."""
        return TypeInfo(Kind.BINARY)

    @staticmethod
    def SQL_DATE() -> TypeInfo[date]:  # noqa: N802
        """`datetime.date`."""
        return TypeInfo(Kind.DATE)

    @staticmethod
    def SQL_TIME() -> TypeInfo[time]:  # noqa: N802
        """`datetime.time` without a time zone."""
        return TypeInfo(Kind.TIME)

    @staticmethod
    def SQL_TIMESTAMP() -> TypeInfo[datetime]:  # noqa: N802
        """Wall-clock time: `datetime.datetime` without a time zone; the same as `TIMESTAMP_NTZ`.

        Flink maps it to a TIMESTAMP without time zone, too. PyFlink reads and writes such a
        datetime in the time zone of the process; here it does not depend on a time zone.
        """
        return TypeInfo(Kind.TIMESTAMP_NTZ)

    @staticmethod
    def TIMESTAMP_NTZ() -> TypeInfo[datetime]:  # noqa: N802
        """Wall-clock time: `datetime.datetime` without a time zone."""
        return TypeInfo(Kind.TIMESTAMP_NTZ)

    @staticmethod
    def TIMESTAMP_LTZ() -> TypeInfo[datetime]:  # noqa: N802
        """A point in time: `datetime.datetime` with a time zone, read back in UTC.

        It is the type of Spark's `timestamp` columns.
        """
        return TypeInfo(Kind.TIMESTAMP)

    @staticmethod
    def INSTANT() -> TypeInfo[Instant]:  # noqa: N802
        """A point in time: PyFlink's `Instant`. A `datetime` with a time zone is accepted, too."""
        return TypeInfo(Kind.INSTANT)

    @staticmethod
    def PICKLED_BYTE_ARRAY() -> TypeInfo[Any]:  # noqa: N802
        """Any object, pickled; only unpickled at the reader's request."""
        return TypeInfo(Kind.PICKLED)

    @staticmethod
    def DECIMAL(precision: int, scale: int = 0) -> TypeInfo[Decimal]:  # noqa: N802
        """`decimal.Decimal` of `precision` digits, `scale` of them after the decimal point."""
        return TypeInfo(Kind.DECIMAL, precision=precision, scale=scale)

    @staticmethod
    def BIG_DEC() -> TypeInfo[Decimal]:  # noqa: N802
        """`decimal.Decimal` of 38 digits, 18 of them after the decimal point."""
        return TypeInfo(Kind.DECIMAL, precision=38, scale=18)

    @staticmethod
    def BIG_INT() -> TypeInfo[int]:  # noqa: N802
        """`int` of at most 38 digits."""
        return TypeInfo(Kind.BIG_INT)

    @staticmethod
    def PRIMITIVE_ARRAY(element_type: Any) -> TypeInfo[Any]:  # noqa: N802
        """Numbers, booleans or CHAR in a `list`; `bytes` for BYTE."""
        element = _element_of(element_type, _PRIMITIVES, "primitive array")
        return TypeInfo(Kind.BINARY) if element.kind == Kind.BYTE else Types.LIST(element)

    @overload
    @staticmethod
    def BASIC_ARRAY(element_type: TypeInfo[T] | type[T]) -> TypeInfo[list[T]]: ...

    @overload
    @staticmethod
    def BASIC_ARRAY(element_type: object) -> TypeInfo[list[Any]]: ...

    @staticmethod
    def BASIC_ARRAY(element_type: Any) -> TypeInfo[Any]:  # noqa: N802
        """Numbers, booleans or strings in a `list`."""
        return Types.LIST(_element_of(element_type, _PRIMITIVES, "basic array"))

    @overload
    @staticmethod
    def OBJECT_ARRAY(element_type: TypeInfo[T] | type[T]) -> TypeInfo[list[T]]: ...

    @overload
    @staticmethod
    def OBJECT_ARRAY(element_type: object) -> TypeInfo[list[Any]]: ...

    @staticmethod
    def OBJECT_ARRAY(element_type: Any) -> TypeInfo[Any]:  # noqa: N802
        """The same as `LIST`."""
        return Types.LIST(element_type)

    @staticmethod
    def ROW(field_types: Sequence[Any]) -> TypeInfo[Any]:  # noqa: N802
        """Fields named f0, f1, ..."""
        return Types.ROW_NAMED([f"f{i}" for i in range(len(field_types))], field_types)

    @staticmethod
    def ROW_NAMED(field_names: Sequence[str], field_types: Sequence[Any]) -> TypeInfo[Any]:  # noqa: N802
        """Named fields, as in a Spark struct."""
        if len(field_names) != len(field_types):
            raise InvalidRequestError(
                f"{len(field_names)} field names for {len(field_types)} field types"
            )
        pairs = zip(field_names, field_types, strict=True)
        return TypeInfo(Kind.ROW, fields=tuple(Field(n, type_info(t)) for n, t in pairs))

    @staticmethod
    def TUPLE(field_types: Sequence[Any]) -> TypeInfo[tuple[Any, ...]]:  # noqa: N802
        """Unnamed fields: `tuple`."""
        return TypeInfo(Kind.TUPLE, fields=tuple(Field("", type_info(t)) for t in field_types))

    @overload
    @staticmethod
    def LIST(element_type: TypeInfo[T] | type[T]) -> TypeInfo[list[T]]: ...

    @overload
    @staticmethod
    def LIST(element_type: object) -> TypeInfo[list[Any]]: ...

    @staticmethod
    def LIST(element_type: Any) -> TypeInfo[Any]:  # noqa: N802
        """`list` of one type."""
        return TypeInfo(Kind.LIST, element=type_info(element_type))

    @overload
    @staticmethod
    def MAP(
        key_type: TypeInfo[K] | type[K], value_type: TypeInfo[V] | type[V]
    ) -> TypeInfo[dict[K, V]]: ...

    @overload
    @staticmethod
    def MAP(key_type: object, value_type: object) -> TypeInfo[dict[Any, Any]]: ...

    @staticmethod
    def MAP(key_type: Any, value_type: Any) -> TypeInfo[Any]:  # noqa: N802
        """`dict`."""
        return TypeInfo(Kind.MAP, key=type_info(key_type), element=type_info(value_type))

    @staticmethod
    def CUSTOM(serializer: TypeSerializer[T]) -> TypeInfo[T]:  # noqa: N802
        """What a serializer of the job writes and reads; servers and queries see bytes."""
        return custom_type(serializer)


def _element_of(spec: Any, allowed: frozenset[Kind], what: str) -> TypeInfo:
    element = type_info(spec)
    if element.kind not in allowed:
        raise InvalidRequestError(
            f"{element.simple_string()} is an invalid element type for a {what}: use "
            "OBJECT_ARRAY or LIST"
        )
    return element


def type_info(spec: Any) -> TypeInfo:
    """Converts a type specification.

    It is a `TypeInfo`, a `TypeSerializer`, a Spark DDL string ("bigint", "a INT, b STRING"), a
    PySpark `DataType`, or a Python class or annotation (`int`, `list[str]`, a dataclass), which
    `python_types` maps. The string "int" is Spark's 32-bit INT, the class `int` is LONG.

    Raises InvalidRequestError for strings with a collation other than UTF8_BINARY, because equal
    keys would hash to different key groups.
    """
    if isinstance(spec, TypeInfo):
        return spec
    if isinstance(spec, TypeSerializer):
        return custom_type(spec)
    if isinstance(spec, str):
        return ddl.parse(spec)
    if is_python_type(spec) and not hasattr(spec, "simpleString"):
        return type_of_class(spec)
    return ddl.from_data_type(spec)
