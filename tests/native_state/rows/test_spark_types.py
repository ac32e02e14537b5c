"""Spark's JSON of types, and the types by which queries see them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.native_state.rows.spark_rows import COMPOSITES, OTHERS, SCALARS, array, fields, map_of

from queryable_state.server.native_state.rows.spark_types import (
    SparkKind,
    UnsupportedTypeError,
    parse_struct,
)
from queryable_state.server.native_state.rows.type_infos import (
    distinct_names,
    key_type_of,
    type_info_of,
)
from queryable_state.wire.errors import CorruptDataError
from queryable_state.wire.keys.key_codec import KeyCodec
from queryable_state.wire.keys.spark_hash import spark_hasher


def parsed(spark_type: object, metadata: dict[str, Any] | None = None) -> Any:
    schema: Any = fields(spark_type)
    schema["fields"][0]["metadata"] = metadata or {}
    return parse_struct(json.dumps(schema)).fields[0].type


@pytest.mark.parametrize(
    ("name", "presented"),
    [
        ("boolean", "boolean"),
        ("byte", "tinyint"),
        ("short", "smallint"),
        ("integer", "int"),
        ("long", "bigint"),
        ("float", "float"),
        ("double", "double"),
        ("decimal", "decimal(10,0)"),
        ("decimal(38,10)", "decimal(38,10)"),
        ("string", "string"),
        ("char(3)", "string"),
        ("varchar(30)", "string"),
        ("string collate UNICODE_CI", "string"),
        ("binary", "binary"),
        ("date", "date"),
        ("timestamp", "timestamp"),
        ("timestamp_ntz", "timestamp_ntz"),
        ("timestamp_ltz(6)", "timestamp"),
        ("timestamp_ltz(9)", "struct<time:timestamp,nanoseconds:smallint>"),
        ("timestamp_ntz(7)", "struct<time:timestamp_ntz,nanoseconds:smallint>"),
        ("time(6)", "time(6)"),
        ("time(0)", "time(6)"),
        ("time(9)", "bigint"),
        ("interval year to month", "int"),
        ("interval month", "int"),
        ("interval day to second", "bigint"),
        ("interval hour", "bigint"),
        ("interval minute to second", "bigint"),
        ("interval", "struct<months:int,days:int,microseconds:bigint>"),
        ("variant", "struct<value:binary,metadata:binary>"),
        ("void", "string"),
        ("null", "string"),
    ],
)
def test_scalars_are_presented(name: str, presented: str) -> None:
    assert type_info_of(parsed(name)).simple_string() == presented


def test_composites_are_presented() -> None:
    nested = array(map_of("integer", fields("string", "date")))
    expected = "array<map<int,struct<c0:string,c1:date>>>"
    assert type_info_of(parsed(nested)).simple_string() == expected
    assert str(parsed(nested)) == "array<map<integer,struct<c0:string,c1:date>>>"
    udt = {"type": "udt", "class": "a.Point", "pyClass": None, "sqlType": array("double")}
    assert type_info_of(parsed(udt)).simple_string() == "array<double>"


def test_a_map_whose_keys_are_no_keys_of_ours_is_a_list_of_entries() -> None:
    by_list = map_of(array("integer"), "string")
    expected = "array<struct<key:array<int>,value:string>>"
    assert type_info_of(parsed(by_list)).simple_string() == expected


def test_collations_are_found_by_their_path_within_a_field() -> None:
    collations = {"__COLLATIONS": {"c0.value.element": "icu.UNICODE_CI"}}
    found = parsed(map_of("string", array("string")), collations)
    assert found.element.element.collation == "UNICODE_CI"
    assert found.key.collation == "UTF8_BINARY"


@pytest.mark.parametrize(
    "name", ["geometry(4326)", "object", "decimal(40,2)", "decimal(5,-2)", "array", "time(12)", "x"]
)
def test_unknown_types_are_refused_by_name(name: str) -> None:
    with pytest.raises(UnsupportedTypeError, match=name.split("(", maxsplit=1)[0]):
        parsed(name)


@pytest.mark.parametrize(
    "text", ["", "[]", '"string"', '{"type": "array"}', '{"type": "struct"}', "[" * 5000]
)
def test_other_texts_are_damage(text: str) -> None:
    with pytest.raises(CorruptDataError):
        parse_struct(text)


def test_types_that_nest_too_deep_are_refused() -> None:
    deep: object = "long"
    for _ in range(40):
        deep = array(deep)
    with pytest.raises(UnsupportedTypeError, match="32 levels"):
        parsed(deep)


@pytest.mark.parametrize("name", [*SCALARS, "interval year to month", "time(9)"])
def test_keys_of_scalars_may_be_null_and_have_a_hash(name: str) -> None:
    info = key_type_of(parsed(name))
    assert info.nullable
    KeyCodec(info)
    spark_hasher(info)


@pytest.mark.parametrize("unkeyed", [*COMPOSITES[4:6], *OTHERS[-4:], "interval", "variant", "void"])
def test_types_without_a_hash_are_refused_as_keys(unkeyed: object) -> None:
    with pytest.raises(UnsupportedTypeError):
        key_type_of(parsed(unkeyed))


def test_strings_of_a_collation_are_refused_as_keys() -> None:
    collated = parsed("string", {"__COLLATIONS": {"c0": "spark.UTF8_LCASE"}})
    with pytest.raises(UnsupportedTypeError, match="UTF8_LCASE"):
        key_type_of(collated)


def test_the_fields_of_a_struct_key_may_be_null() -> None:
    info = key_type_of(parsed(fields("timestamp", "timestamp")))
    assert KeyCodec(info).encode((None, None)) == b"\x01\x00\x00"


@pytest.mark.parametrize(
    ("names", "distinct"),
    [
        (["count", "sum", "sum", "count"], ["count", "sum", "sum_2", "count_2"]),
        (["a", "a", "a_2"], ["a", "a_3", "a_2"]),
        (["", "a", ""], ["_1", "a", "_3"]),
    ],
)
def test_fields_named_alike_get_numbers(names: list[str], distinct: list[str]) -> None:
    assert distinct_names(names) == distinct


def test_windows_are_marked() -> None:
    schema: Any = fields(fields("timestamp", "timestamp"), "long")
    schema["fields"][0]["metadata"] = {"spark.timeWindow": True}
    window, number = parse_struct(json.dumps(schema)).fields
    assert window.is_window
    assert not number.is_window
    assert number.type.kind == SparkKind.LONG
