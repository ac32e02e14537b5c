"""Widened types: every stored value is read exactly, wherever its type stands."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.samples import sampled
from tests.wire.conftest import scalar_types, values_of

from queryable_state.wire.errors import JobError
from queryable_state.wire.rows import make_row
from queryable_state.wire.schema.instant import Instant
from queryable_state.wire.schema.types import Kind, TypeInfo, Types, type_info
from queryable_state.wire.values.evolution import adapter, widens
from queryable_state.wire.values.value_codec import ValueCodec

if TYPE_CHECKING:
    from collections.abc import Callable

WIDENED = [
    ("tinyint", "smallint"),
    ("tinyint", "float"),
    ("tinyint", "decimal(3,0)"),
    ("smallint", "bigint"),
    ("smallint", "float"),
    ("smallint", "double"),
    ("int", "bigint"),
    ("int", "double"),
    ("int", "big_int"),
    ("int", "decimal(12,2)"),
    ("bigint", "big_int"),
    ("bigint", "decimal(38,19)"),
    ("big_int", "decimal(38,0)"),
    ("decimal(38,0)", "big_int"),
    ("decimal(5,2)", "big_decimal"),
    ("decimal(5,2)", "decimal(7,2)"),
    ("decimal(5,2)", "decimal(38,35)"),
    ("float", "double"),
    ("string", "binary"),
    ("timestamp", "instant"),
    ("instant", "timestamp"),
]

REFUSED = [
    ("int", "smallint"),
    ("int", "float"),
    ("bigint", "double"),
    ("bigint", "decimal(18,0)"),
    ("double", "float"),
    ("decimal(5,2)", "decimal(5,3)"),
    ("decimal(5,2)", "decimal(6,1)"),
    ("decimal(5,2)", "big_int"),
    ("binary", "string"),
    ("int", "string"),
    ("date", "timestamp"),
    ("timestamp", "timestamp_ntz"),
    ("boolean", "int"),
    ("string", "pickled"),
    ("array<bigint>", "array<int>"),
    ("map<string,int>", "map<binary,int>"),
    ("tuple<int>", "tuple<int,int>"),
    ("struct<a:int>", "tuple<int>"),
]


def pair(written: tuple[str, str]) -> tuple[TypeInfo, TypeInfo]:
    old, new = (name.replace("big_decimal", "decimal(38,18)") for name in written)
    return type_info(old), type_info(new)


Wrap = tuple["Callable[[TypeInfo], TypeInfo]", "Callable[[Any], Any]"]

NESTED: dict[str, Wrap] = {
    "alone": (lambda info: info, lambda value: value),
    "field": (
        lambda info: Types.ROW_NAMED(["before", "it"], [bool, info]),
        lambda value: make_row(["before", "it"], [None, value]),
    ),
    "nested field": (
        lambda info: Types.ROW_NAMED(["row"], [Types.ROW_NAMED(["it"], [info])]),
        lambda value: make_row(["row"], [make_row(["it"], [value])]),
    ),
    "list element": (Types.LIST, lambda value: [value, None]),
    "map value": (lambda info: Types.MAP(str, info), lambda value: {"a": value, "b": None}),
    "tuple field": (lambda info: Types.TUPLE([info, str]), lambda value: (value, "x")),
    "row in a map in a list": (
        lambda info: Types.LIST(Types.MAP(int, Types.ROW_NAMED(["it"], [info]))),
        lambda value: [{1: make_row(["it"], [value])}],
    ),
}


def converted(value: Any, new: TypeInfo) -> Any:
    match new.kind:
        case Kind.BINARY:
            return value.encode()
        case Kind.INSTANT:
            return Instant.of_datetime(value)
        case Kind.TIMESTAMP:
            return value.to_datetime()
    return value


@pytest.mark.parametrize("place", NESTED)
@pytest.mark.parametrize("written", WIDENED, ids=" to ".join)
@settings(max_examples=sampled(8))
@given(data=st.data())
def test_a_widened_type_reads_every_stored_value_exactly(
    data: st.DataObject, written: tuple[str, str], place: str
) -> None:
    old, new = pair(written)
    typed, valued = NESTED[place]
    value = data.draw(values_of(old, nulls=False).filter(lambda each: each == each))
    stored = ValueCodec({1: typed(old)}, 1).encode(valued(value))
    codec = ValueCodec({1: typed(old), 2: typed(new)}, 2)
    found = codec.decode(stored)
    assert found == valued(converted(value, new))
    # It has the form of a value that was written as the new type.
    assert repr(codec.decode(codec.encode(found))) == repr(found)


@pytest.mark.parametrize("written", REFUSED, ids=" to ".join)
def test_any_other_change_is_refused_and_names_both_types(written: tuple[str, str]) -> None:
    old, new = map(type_info, written)
    with pytest.raises(JobError, match=r"was .* and is .* numbers widened"):
        adapter(old, new)


@settings(max_examples=sampled(300))
@given(old=scalar_types(), middle=scalar_types(), new=scalar_types())
def test_widening_is_transitive(old: TypeInfo, middle: TypeInfo, new: TypeInfo) -> None:
    if widens(old, middle) and widens(middle, new):
        assert widens(old, new) or old == new


def test_keys_of_a_map_value_may_widen_without_conversion_only() -> None:
    old, new = Types.MAP("int", str), Types.MAP("bigint", str)
    data = ValueCodec({1: old}, 1).encode({1: "a"})
    assert ValueCodec({1: old, 2: new}, 2).decode(data) == {1: "a"}
    with pytest.raises(JobError, match="map"):
        adapter(old, Types.MAP("double", str))
