"""Factories of types with PyFlink's names, and conversion of Spark's types."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, overload

from queryable_state.wire.errors import InvalidRequestError
from queryable_state.wire.schema import ddl
from queryable_state.wire.schema.type_model import MAX_DEPTH, Field, Kind, TypeInfo

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import date, datetime
    from decimal import Decimal

    from queryable_state.wire.schema.type_variables import K, T, V

__all__ = ["MAX_DEPTH", "Field", "Kind", "TypeInfo", "Types", "type_info"]


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
        """`str`."""
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
    def SQL_TIMESTAMP() -> TypeInfo[datetime]:  # noqa: N802
        """An instant: an aware `datetime.datetime`, read back in UTC."""
        return TypeInfo(Kind.TIMESTAMP)

    @staticmethod
    def INSTANT() -> TypeInfo[datetime]:  # noqa: N802
        """The same as `SQL_TIMESTAMP`."""
        return TypeInfo(Kind.TIMESTAMP)

    @staticmethod
    def TIMESTAMP_NTZ() -> TypeInfo[datetime]:  # noqa: N802
        """Wall-clock time: a naive `datetime.datetime`."""
        return TypeInfo(Kind.TIMESTAMP_NTZ)

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
    def BIG_INT() -> TypeInfo[Decimal]:  # noqa: N802
        """`decimal.Decimal` of 38 digits, none after the decimal point."""
        return TypeInfo(Kind.DECIMAL, precision=38, scale=0)

    @staticmethod
    def PRIMITIVE_ARRAY(element_type: Any) -> TypeInfo[Any]:  # noqa: N802
        """BINARY for BYTE, else a LIST."""
        element = type_info(element_type)
        return TypeInfo(Kind.BINARY) if element.kind == Kind.BYTE else Types.LIST(element)

    @overload
    @staticmethod
    def BASIC_ARRAY(element_type: TypeInfo[T] | type[T]) -> TypeInfo[list[T]]: ...

    @overload
    @staticmethod
    def BASIC_ARRAY(element_type: object) -> TypeInfo[list[Any]]: ...

    @staticmethod
    def BASIC_ARRAY(element_type: Any) -> TypeInfo[Any]:  # noqa: N802
        """The same as `LIST`."""
        return Types.LIST(element_type)

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


def type_info(spec: Any) -> TypeInfo:
    """Converts a `TypeInfo`, a Spark DDL string ("bigint", "a INT, b STRING") or a PySpark type.

    Raises InvalidRequestError for strings with a collation other than UTF8_BINARY, because
    equal keys would hash to different key groups.
    """
    if isinstance(spec, TypeInfo):
        return spec
    if isinstance(spec, str):
        return ddl.parse(spec)
    return ddl.from_data_type(spec)
