"""Prefixes of keys: bytes begin so exactly where values do."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.wire.conftest import values_of

from queryable_state.wire.errors import InvalidRequestError, KeyTypeError, Reason
from queryable_state.wire.keys.key_codec import KeyCodec
from queryable_state.wire.keys.key_prefix import key_prefix, key_prefix_from_json
from queryable_state.wire.schema.types import Field, Kind, TypeInfo, Types

if TYPE_CHECKING:
    from tests.wire.conftest import Wire

PROPERTY = settings(max_examples=60)

# Few letters, so that some begin with others; zero bytes are what escaping is about.
TEXTS = st.text("\x00\x01aÿ", max_size=4)
BINARIES = st.binary(max_size=3) | st.text("\x00\x01\xff", max_size=4).map(
    lambda text: text.encode("latin-1")
)
PAIR = TypeInfo(
    Kind.ROW, fields=(Field("carrier", Types.STRING()), Field("day", TypeInfo(Kind.INT)))
)


@PROPERTY
@given(key=TEXTS | st.text(max_size=6), prefix=TEXTS)
def test_a_string_begins_with_a_prefix_where_its_bytes_do(key: str, prefix: str) -> None:
    encoded = KeyCodec(Types.STRING()).encode(key)
    assert encoded.startswith(key_prefix(prefix, Types.STRING())) == key.startswith(prefix)
    assert key_prefix_from_json(json.dumps(prefix), Types.STRING()) == key_prefix(
        prefix, Types.STRING()
    )


@PROPERTY
@given(key=BINARIES, prefix=BINARIES)
def test_binary_begins_with_a_prefix_where_its_bytes_do(key: bytes, prefix: bytes) -> None:
    info = TypeInfo(Kind.BINARY)
    encoded = KeyCodec(info).encode(key)
    assert encoded.startswith(key_prefix(prefix, info)) == key.startswith(prefix)


@PROPERTY
@given(data=st.data())
def test_a_row_begins_with_its_first_fields(data: st.DataObject, keys: Wire) -> None:
    """And with those of another row exactly where the fields encode alike."""
    info = data.draw(keys.types.filter(lambda t: t.kind in (Kind.ROW, Kind.TUPLE)))
    rows = values_of(replace(info, nullable=False), nulls=False)
    one, other = (tuple(data.draw(rows)) for _ in range(2))
    width = data.draw(st.integers(0, len(info.fields)))
    prefix = key_prefix(one[:width], info)
    encode = KeyCodec(info).encode
    assert encode(one).startswith(prefix)
    parts = [KeyCodec(field.type).encode for field in info.fields[:width]]
    alike = all(part(a) == part(b) for part, a, b in zip(parts, one, other, strict=False))
    assert encode(other).startswith(prefix) == alike


def test_a_null_is_the_first_field_of_a_row_and_the_beginning_of_no_text() -> None:
    info = TypeInfo(Kind.STRING, nullable=True)
    pair = TypeInfo(Kind.ROW, fields=(Field("carrier", info), PAIR.fields[1]))
    assert KeyCodec(pair).encode((None, 3)).startswith(key_prefix([None], pair))
    assert key_prefix_from_json("[null]", pair) == key_prefix([None], pair)
    with pytest.raises(KeyTypeError, match="null"):
        key_prefix(None, info)


@pytest.mark.parametrize("text", ['["AA"]', '{"carrier": "AA"}'])
def test_json_has_the_first_fields_in_order_or_by_name(text: str) -> None:
    assert key_prefix_from_json(text, PAIR) == key_prefix(("AA",), PAIR)
    assert key_prefix({"carrier": "AA"}, PAIR) == key_prefix(["AA"], PAIR)
    assert key_prefix_from_json("[]", PAIR) == key_prefix((), PAIR) == b""


@pytest.mark.parametrize(
    "text", ['"AA"', "7", "[7]", '["AA", 3, 4]', '{"day": 3}', "no json", '["AA", null]']
)
def test_what_is_no_beginning_is_refused(text: str) -> None:
    with pytest.raises(InvalidRequestError):
        key_prefix_from_json(text, PAIR)


@pytest.mark.parametrize("value", [7, "AA", (7,), ("AA", 3, 4), {"day": 3}, None])
def test_a_value_that_is_no_beginning_is_a_type_error(value: Any) -> None:
    with pytest.raises(KeyTypeError):
        key_prefix(value, PAIR)


def test_numbers_have_no_prefixes() -> None:
    with pytest.raises(InvalidRequestError, match="start and an end") as failure:
        key_prefix(7, Types.LONG())
    assert failure.value.reason == Reason.UNSUPPORTED
    with pytest.raises(InvalidRequestError, match="start and an end"):
        key_prefix_from_json("7", Types.LONG())
