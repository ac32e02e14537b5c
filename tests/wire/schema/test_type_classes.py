"""PyFlink's classes of types, after PyFlink's own test of them."""

from __future__ import annotations

import pytest

from queryable_state.wire.errors import InvalidRequestError
from queryable_state.wire.schema.type_classes import (
    BasicArrayTypeInfo,
    BasicType,
    BasicTypeInfo,
    ListTypeInfo,
    MapTypeInfo,
    ObjectArrayTypeInfo,
    PickledBytesTypeInfo,
    PrimitiveArrayTypeInfo,
    RowTypeInfo,
    SqlTimeTypeInfo,
    TupleTypeInfo,
)
from queryable_state.wire.schema.types import TypeInfo, Types


def test_row_types() -> None:
    row = RowTypeInfo([Types.STRING(), Types.STRING()], ["a", "b"])
    assert RowTypeInfo([Types.STRING(), Types.STRING()]).get_field_names() == ["f0", "f1"]
    assert row.get_field_names() == ["a", "b"]
    assert row.get_field_types() == [Types.STRING(), Types.STRING()]
    assert row.get_field_index("b") == 1
    assert row == Types.ROW_NAMED(["a", "b"], [Types.STRING(), Types.STRING()])
    assert row != RowTypeInfo([Types.STRING(), Types.INT()], ["a", "b"])
    assert str(row) == "RowTypeInfo(a: String, b: String)"
    assert RowTypeInfo([Types.STRING()]) == Types.ROW([Types.STRING()])


def test_tuple_types() -> None:
    info = TupleTypeInfo([Types.STRING(), Types.INT()])
    assert info == Types.TUPLE([Types.STRING(), Types.INT()])
    assert info != TupleTypeInfo([Types.STRING(), Types.BOOLEAN()])
    assert str(info) == "TupleTypeInfo(String, Integer)"
    assert info.get_field_types() == [Types.STRING(), Types.INT()]


@pytest.mark.parametrize(
    ("info", "cls", "text"),
    [
        (Types.LONG(), BasicTypeInfo, "Long"),
        (Types.BIG_DEC(), BasicTypeInfo, "BigDecimal"),
        (Types.DECIMAL(10, 2), BasicTypeInfo, "Decimal(10, 2)"),
        (Types.INSTANT(), BasicTypeInfo, "Instant"),
        (BasicTypeInfo(BasicType.BIG_INT), BasicTypeInfo, "BigInteger"),
        (BasicTypeInfo.CHAR_TYPE_INFO(), BasicTypeInfo, "String"),
        (SqlTimeTypeInfo.DATE(), SqlTimeTypeInfo, "DateTypeInfo"),
        (SqlTimeTypeInfo.TIME(), SqlTimeTypeInfo, "TimeTypeInfo"),
        (SqlTimeTypeInfo.TIMESTAMP(), SqlTimeTypeInfo, "TimestampTypeInfo"),
        (ListTypeInfo(Types.INT()), ListTypeInfo, "ListTypeInfo<Integer>"),
        (BasicArrayTypeInfo(Types.INT()), BasicArrayTypeInfo, "ListTypeInfo<Integer>"),
        (ObjectArrayTypeInfo(Types.INT()), ObjectArrayTypeInfo, "ListTypeInfo<Integer>"),
        (
            PrimitiveArrayTypeInfo(Types.BYTE()),
            PrimitiveArrayTypeInfo,
            "PrimitiveArrayTypeInfo<Byte>",
        ),
        (MapTypeInfo(str, int), MapTypeInfo, "MapTypeInfo<String, Long>"),
        (PickledBytesTypeInfo(), PickledBytesTypeInfo, "PickledByteArrayTypeInfo"),
    ],
)
def test_a_class_of_pyflink_makes_and_recognises_a_type(
    info: TypeInfo, cls: type, text: str
) -> None:
    assert isinstance(info, TypeInfo)
    assert isinstance(info, cls)
    assert repr(info) == str(info) == text


def test_a_type_is_of_its_own_class_only() -> None:
    assert not isinstance(Types.LONG(), RowTypeInfo)
    assert not isinstance(7, BasicTypeInfo)
    assert f"{Types.ROW([int])}" == "struct<f0:bigint>"


def test_only_rows_and_tuples_have_fields() -> None:
    with pytest.raises(InvalidRequestError, match="bigint has no field names"):
        Types.LONG().get_field_names()
    assert Types.LIST(int).elem_type == Types.LONG()
