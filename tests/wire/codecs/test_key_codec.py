"""Keys as bytes: whole round trips, the order of the values, typed refusals."""

from __future__ import annotations

import datetime as dt
import math
import pickle
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from queryable_state.wire.errors import CorruptDataError, KeyTypeError
from queryable_state.wire.keys.key_codec import KeyCodec
from queryable_state.wire.schema.types import Types, type_info

if TYPE_CHECKING:
    from tests.wire.conftest import Wire

# A busy machine stalls: a slow example is no failure.
PROPERTY = settings(max_examples=80)


def rank(value: Any) -> Any:
    """What a key sorts by: nulls first, NaN last, nothing else special."""
    if value is None:
        return (0,)
    if isinstance(value, tuple):
        return (1, *(rank(part) for part in value))
    if isinstance(value, float):
        return (1, 1, 0.0) if math.isnan(value) else (1, 0, value)
    return (1, value)


@PROPERTY
@given(data=st.data())
def test_a_key_comes_back_whole(data: st.DataObject, keys: Wire) -> None:
    info, key = data.draw(keys.typed)
    codec = KeyCodec(info)
    encoded = codec.encode(key)
    assert rank(codec.decode_all(encoded)) == rank(key)


@PROPERTY
@given(data=st.data())
def test_a_key_ends_where_it_says(data: st.DataObject, keys: Wire) -> None:
    """Whatever stands before and behind it."""
    info, key = data.draw(keys.typed)
    before, behind = data.draw(st.tuples(st.binary(max_size=5), st.binary(max_size=5)))
    codec = KeyCodec(info)
    encoded = codec.encode(key)
    decoded, end = codec.decode(before + encoded + behind, len(before))
    assert rank(decoded) == rank(key)
    assert end == len(before) + len(encoded)


@PROPERTY
@given(data=st.data())
def test_keys_sort_as_their_values(data: st.DataObject, keys: Wire) -> None:
    info, one, other = data.draw(keys.typed_pairs)
    codec = KeyCodec(info)
    first, second = codec.encode(one), codec.encode(other)
    assert (first < second) == (rank(one) < rank(other))
    assert (first == second) == (rank(one) == rank(other))


@PROPERTY
@given(data=st.data())
def test_no_key_is_the_prefix_of_another(data: st.DataObject, keys: Wire) -> None:
    info, one, other = data.draw(keys.typed_pairs)
    codec = KeyCodec(info)
    first, second = codec.encode(one), codec.encode(other)
    assert first == second or not first.startswith(second)


def test_minus_zero_is_zero_and_there_is_one_nan() -> None:
    for info in (Types.FLOAT(), Types.DOUBLE()):
        encode = KeyCodec(info).encode
        assert encode(-0.0) == encode(0.0) == encode(0)
        assert encode(math.nan) == encode(-math.nan) > encode(math.inf)
    # Too small for a float: zero, whatever its sign.
    assert KeyCodec(Types.FLOAT()).encode(-1e-60) == KeyCodec(Types.FLOAT()).encode(0.0)


def test_an_encoding_of_minus_zero_is_corrupt() -> None:
    codec = KeyCodec(Types.DOUBLE())
    with pytest.raises(CorruptDataError, match=r"-0\.0"):
        codec.decode_all(bytes.fromhex("7fffffffffffffff"))


@pytest.mark.parametrize(
    ("spec", "value"),
    [
        ("string", 7),
        ("string", b"a"),
        ("string", "\ud800"),
        ("binary", "a"),
        ("boolean", 1),
        ("tinyint", 128),
        ("smallint", -32769),
        ("int", 1 << 31),
        ("bigint", 1 << 63),
        ("bigint", 1.0),
        ("bigint", True),
        ("bigint", "7"),
        ("float", 1e39),
        ("double", "1.5"),
        ("double", True),
        ("decimal(4,2)", Decimal("1.234")),
        ("decimal(4,2)", Decimal("123.4")),
        ("decimal(4,2)", Decimal("1E+1000000")),
        ("decimal(4,2)", Decimal("NaN")),
        ("decimal(4,2)", 1.5),
        ("date", dt.datetime(2013, 1, 1, tzinfo=dt.UTC)),
        ("timestamp", dt.datetime(2013, 1, 1)),  # noqa: DTZ001
        ("timestamp", dt.date(2013, 1, 1)),
        ("timestamp_ntz", dt.datetime(2013, 1, 1, tzinfo=dt.UTC)),
        ("a int, b int", (1,)),
        ("a int, b int", {"a": 1, "c": 2}),
        ("a int, b int", 7),
        ("tuple<int,string>", (1, 2)),
    ],
)
def test_what_is_not_of_the_type_is_refused(spec: str, value: object) -> None:
    with pytest.raises(KeyTypeError, match="key"):
        KeyCodec(type_info(spec)).encode(value)


def test_a_null_is_refused_and_the_field_named() -> None:
    with pytest.raises(KeyTypeError, match=r"key\.b is null"):
        KeyCodec(type_info("a int, b string")).encode((1, None))
    with pytest.raises(KeyTypeError, match=r"key is null"):
        KeyCodec(Types.STRING()).encode(None)
    with pytest.raises(KeyTypeError, match=r"key\[0\]\[1\] is null"):
        KeyCodec(type_info("tuple<tuple<int,int>>")).encode(((1, None),))


@pytest.mark.parametrize("spec", ["array<int>", "map<int,int>", "pickled", "a array<int>"])
def test_lists_maps_and_pickles_are_no_keys(spec: str) -> None:
    with pytest.raises(KeyTypeError, match="keys are scalars"):
        KeyCodec(type_info(spec))


def test_a_row_key_is_understood_by_position_and_by_name() -> None:
    codec = KeyCodec(type_info("a int, b string"))
    encoded = codec.encode((1, "x"))
    assert encoded == codec.encode([1, "x"]) == codec.encode({"b": "x", "a": 1})
    row = codec.decode_all(encoded)
    assert (row.a, row["b"], row[0]) == (1, "x", 1)


def test_a_codec_can_be_pickled() -> None:
    codec = pickle.loads(pickle.dumps(KeyCodec(Types.STRING())))
    assert codec.encode("a") == b"a\x00\x01"
