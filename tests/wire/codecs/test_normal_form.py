"""The normal form of a value is what its stored bytes give."""

from __future__ import annotations

from collections import namedtuple
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from enum import IntEnum, StrEnum
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from queryable_state.wire.errors import CorruptDataError, SerializationError
from queryable_state.wire.rows import make_row
from queryable_state.wire.schema.type_model import Kind, TypeInfo
from queryable_state.wire.schema.types import Types, type_info
from queryable_state.wire.values.list_elements import ElementCodec
from queryable_state.wire.values.normal_form import is_mutable, normaliser
from queryable_state.wire.values.value_codec import ValueCodec

if TYPE_CHECKING:
    from tests.wire.conftest import Wire

PROPERTY = settings(max_examples=60)

Pair = namedtuple("Pair", ["b", "a"])
Colour = StrEnum("Colour", ["RED"])
Level = IntEnum("Level", ["LOW"])

BERLIN = timezone(timedelta(hours=2))
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def normal(spec: Any, value: object) -> Any:
    codec = ValueCodec.of(type_info(spec))
    return normaliser(codec.type_info, codec.read_back)(value)


def told(value: object) -> str:
    """Class and content, down to the smallest part."""
    if isinstance(value, list | tuple):
        return f"{type(value).__name__}{[told(each) for each in value]}"
    return f"{type(value).__name__} {value!r}"


@pytest.mark.parametrize(
    ("spec", "value"),
    [
        ("bigint", True),
        ("bigint", np.int64(7)),
        ("bigint", Level.LOW),
        ("double", 1),
        ("double", np.float64(1.5)),
        ("double", -0.0),
        ("double", float("nan")),
        ("float", 0.1),
        ("float", np.float32(0.1)),
        ("boolean", np.True_),
        ("string", Colour.RED),
        ("string", "grün"),
        ("binary", bytearray(b"x")),
        ("binary", memoryview(b"x")),
        ("decimal(6,2)", Decimal("1.5")),
        ("decimal(6,2)", Decimal("-0.00")),
        ("decimal(6,2)", 3),
        ("decimal(38,0)", Decimal(10) ** 37),
        ("timestamp", NOON.astimezone(BERLIN)),
        ("timestamp", NOON.replace(fold=1)),
        ("timestamp_ntz", NOON.replace(tzinfo=None, fold=1)),
        ("date", date(2026, 1, 1)),
        ("a bigint, b double", (1, 2)),
        ("a bigint, b double", {"b": 1}),
        ("a bigint, b double", Pair(2, 1)),
        ("a bigint, b double", make_row(("a", "b"), (True, 2))),
        ("a string, b float", ("x", 0.1)),
        ("a string, b struct<c:int>", ("x", (1,))),
        ("tuple<bigint,string>", [1, "x"]),
        ("tuple<bigint,string>", (None, "x")),
    ],
)
def test_a_value_in_its_normal_form_is_the_one_its_bytes_give(spec: str, value: object) -> None:
    codec = ValueCodec.of(type_info(spec))
    assert told(normal(spec, value)) == told(codec.decode(codec.encode(value)))


@PROPERTY
@given(data=st.data())
def test_any_value_of_any_type_has_the_normal_form_of_its_bytes(
    data: st.DataObject, values: Wire
) -> None:
    info, value = data.draw(values.typed)
    if is_mutable(info):
        return
    codec = ValueCodec.of(info)
    read = codec.decode(codec.encode(value))
    assert told(normal(info, value)) == told(read)
    assert told(normal(info, read)) == told(read)


@pytest.mark.parametrize(
    ("spec", "value"),
    [
        ("bigint", 1 << 62),
        ("double", 0.1),
        ("string", "x"),
        ("decimal(6,2)", Decimal("1.50")),
        ("timestamp", NOON),
        ("a bigint, b string", make_row(("a", "b"), (1, None))),
    ],
)
def test_a_normal_value_is_returned_as_it_is(spec: str, value: object) -> None:
    assert normal(spec, value) is value


@pytest.mark.parametrize(
    ("spec", "value"),
    [
        ("bigint", 1 << 63),
        ("bigint", 1.0),
        ("bigint", None),
        ("float", 1e39),
        ("string", "\ud800"),
        ("string", b"x"),
        ("decimal(4,2)", Decimal("100.00")),
        ("decimal(4,2)", Decimal("0.001")),
        ("timestamp", NOON.replace(tzinfo=None)),
        ("timestamp", datetime.min.replace(tzinfo=BERLIN)),
        ("timestamp_ntz", NOON),
        ("date", NOON),
        ("a bigint, b string", (1,)),
        ("a bigint, b string", (1, 2)),
    ],
)
def test_what_the_type_cannot_hold_has_no_normal_form(spec: str, value: object) -> None:
    with pytest.raises(SerializationError):
        normal(spec, value)


def test_keys_of_a_map_that_are_one_key_of_its_type_are_refused() -> None:
    codec = ValueCodec.of(type_info("map<float,int>"))
    with pytest.raises(SerializationError, match="two of its keys are the same float"):
        codec.encode({0.1: 1, float(np.float32(0.1)): 2})


@PROPERTY
@given(data=st.data(), count=st.integers(0, 9))
def test_elements_encoded_one_by_one_join_to_the_list(
    data: st.DataObject, count: int, values: Wire
) -> None:
    info, value = data.draw(values.typed)
    lists = ValueCodec.of(TypeInfo(Kind.LIST, element=info))
    elements = ElementCodec(lists)
    encoded = elements.encode(value)
    assert told(elements.decode(encoded)) == told(lists.decode(lists.encode([value]))[0])
    assert elements.join([encoded] * count) == lists.encode([value] * count)
    with pytest.raises(CorruptDataError):
        elements.decode(encoded + b"x")


def test_a_null_has_bytes_of_its_own_and_no_payload() -> None:
    codec = ValueCodec({300: Types.LONG()}, 300)
    assert codec.null == b"\x01\xac\x02"
    assert codec.decode(codec.null) is None
    assert codec.decode_all([codec.encode(1), codec.null]) is None
    with pytest.raises(CorruptDataError, match="no payload"):
        codec.decode(codec.null + b"\x00")
    with pytest.raises(CorruptDataError, match="known are"):
        codec.decode(b"\x01\x07")
