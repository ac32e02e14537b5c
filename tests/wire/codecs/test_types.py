"""Types: PyFlink's names, Spark's DDL, PySpark's DataTypes, the proto."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from queryable_state.v1 import types_pb2
from queryable_state.wire.errors import InvalidRequestError, Reason
from queryable_state.wire.schema.types import Field, Kind, TypeInfo, Types, type_info

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.wire.conftest import Wire


@settings(max_examples=80)
@given(data=st.data())
def test_a_type_comes_back_from_its_proto_and_from_its_name(
    data: st.DataObject, values: Wire
) -> None:
    info = data.draw(values.types)
    assert TypeInfo.from_proto(info.to_proto()) == info
    assert type_info(info.simple_string()) == info


@pytest.mark.parametrize(
    ("written", "info"),
    [
        ("bigint", Types.LONG()),
        (" LONG ", Types.LONG()),
        ("decimal", Types.DECIMAL(10, 0)),
        ("DECIMAL(20)", Types.DECIMAL(20, 0)),
        ("numeric(38, 18)", Types.BIG_DEC()),
        ("varchar(10)", Types.STRING()),
        ("double precision", Types.DOUBLE()),
        ("string collate UTF8_BINARY", Types.STRING()),
        ("timestamp_ltz", Types.TIMESTAMP_LTZ()),
        ("timestamp_ntz", Types.SQL_TIMESTAMP()),
        ("time", Types.SQL_TIME()),
        ("time(6)", Types.SQL_TIME()),
        ("instant", Types.INSTANT()),
        ("big_int", Types.BIG_INT()),
        ("array<tinyint>", Types.LIST(Types.BYTE())),
        ("map<string,array<int>>", Types.MAP("string", Types.LIST("int"))),
        (
            "a INT, b STRING NOT NULL COMMENT 'the b'",
            Types.ROW_NAMED(["a", "b"], ["int", "string"]),
        ),
        ("a: int", Types.ROW_NAMED(["a"], ["int"])),
        ("`a``b c` int", Types.ROW_NAMED(["a`b c"], ["int"])),
        ("string int", Types.ROW_NAMED(["string"], ["int"])),
        ("date date", Types.ROW_NAMED(["date"], ["date"])),
        ("struct<a:struct<b:int>>", Types.ROW_NAMED(["a"], ["b int"])),
        ("struct<`>`:int>", Types.ROW_NAMED([">"], ["int"])),
        ("struct<>", TypeInfo(Kind.ROW)),
        ("tuple<int,pickled>", Types.TUPLE(["int", Types.PICKLED_BYTE_ARRAY()])),
    ],
)
def test_written_types_are_understood(written: str, info: TypeInfo) -> None:
    assert type_info(written) == info


@pytest.mark.parametrize(
    ("written", "text"),
    [
        ("", "too early"),
        ("strng", "not a type"),
        ("variant", "not a type"),
        ("interval day to second", "not a type"),
        ("array<int", "expected '>'"),
        ("int>", "after the type"),
        ("int, string", "after the type"),
        ("a int,", "too early"),
        ("decimal(39,0)", "1 to 38"),
        ("decimal(4,5)", "0 to precision"),
        ("decimal(x)", "a number"),
        ("decimal(1,2,3)", "precision and a scale"),
        ("struct<a:int,a:int>", "distinct"),
        ("string collate UNICODE_CI", "collation"),
        ("struct<a:string collate UTF8_BINARY_RTRIM>", "UTF8_BINARY"),
        ("a ; b", "unexpected ';'"),
    ],
)
def test_what_is_no_type_is_refused(written: str, text: str) -> None:
    with pytest.raises(InvalidRequestError, match=text):
        type_info(written)


def test_what_only_looks_like_a_type_is_refused() -> None:
    for spec in (7, None, Types):
        with pytest.raises(InvalidRequestError, match="not a type"):
            type_info(spec)


@pytest.mark.parametrize(
    "make",
    [
        lambda: TypeInfo(Kind.LIST),
        lambda: TypeInfo(Kind.MAP, element=Types.INT()),
        lambda: TypeInfo(Kind.INT, element=Types.INT()),
        lambda: TypeInfo(Kind.INT, precision=3),
        lambda: TypeInfo(Kind.INT, fields=(Field("a", Types.INT()),)),
        lambda: TypeInfo(Kind.TUPLE, fields=(Field("a", Types.INT()),)),
        lambda: TypeInfo(Kind.ROW, fields=(Field("", Types.INT()),)),
        lambda: Types.ROW_NAMED(["a"], []),
    ],
)
def test_a_type_of_the_wrong_shape_cannot_be_made(make: Callable[[], TypeInfo]) -> None:
    with pytest.raises(InvalidRequestError):
        make()


def test_an_unknown_kind_asks_for_a_newer_version() -> None:
    proto = types_pb2.TypeInfo(kind=99)  # type: ignore[arg-type]
    with pytest.raises(InvalidRequestError, match="newer") as caught:
        TypeInfo.from_proto(proto)
    assert caught.value.reason == Reason.UNSUPPORTED


def test_pyflinks_names() -> None:
    assert Types.PRIMITIVE_ARRAY(Types.BYTE()) == Types.BINARY()
    assert Types.PRIMITIVE_ARRAY("int") == Types.BASIC_ARRAY("int") == Types.LIST("int")
    assert Types.SQL_TIMESTAMP() == Types.TIMESTAMP_NTZ()
    with pytest.raises(InvalidRequestError, match="invalid element type for a primitive array"):
        Types.PRIMITIVE_ARRAY(Types.SQL_DATE())
    assert [f.name for f in Types.ROW(["int", "string"]).fields] == ["f0", "f1"]


def test_spark_data_types_are_understood() -> None:
    """Also field names that a DDL string would have to quote."""
    sql = pytest.importorskip("pyspark.sql.types")
    spark_type = sql.StructType(
        [
            sql.StructField("a:b", sql.ArrayType(sql.DecimalType(10, 2))),
            sql.StructField("m", sql.MapType(sql.StringType(), sql.TimestampNTZType())),
            sql.StructField("v", sql.VarcharType(3)),
            sql.StructField("y", sql.ByteType()),
        ]
    )
    assert type_info(spark_type) == Types.ROW_NAMED(
        ["a:b", "m", "v", "y"],
        ["array<decimal(10,2)>", "map<string,timestamp_ntz>", "string", "tinyint"],
    )
    with pytest.raises(InvalidRequestError, match="collation"):
        type_info(sql.StringType("UTF8_LCASE"))
