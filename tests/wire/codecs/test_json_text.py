"""JSON for people: keys in, values out, and what state objects read as."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from queryable_state.v1 import query_pb2
from queryable_state.v1.registration_pb2 import SchemaVersion, StateKind, StateRegistration
from queryable_state.wire.errors import CorruptDataError, InvalidRequestError, KeyTypeError
from queryable_state.wire.json_text import key_from_json, to_jsonable
from queryable_state.wire.keys.key_codec import KeyCodec
from queryable_state.wire.schema.types import Types, type_info
from queryable_state.wire.state_codecs import StateCodecs
from queryable_state.wire.state_json import StateJson
from queryable_state.wire.values.pickled import PickledValue
from queryable_state.wire.values.value_codec import ValueCodec

if TYPE_CHECKING:
    from tests.wire.conftest import Wire


def registration(kind: StateKind.ValueType, value: Any, **more: Any) -> StateRegistration:
    return StateRegistration(
        kind=kind,
        key_type=Types.STRING().to_proto(),
        max_parallelism=128,
        value_types=[SchemaVersion(version=1, type=type_info(value).to_proto())],
        **more,
    )


@settings(max_examples=80)
@given(data=st.data())
def test_a_key_comes_back_from_its_json(data: st.DataObject, keys: Wire) -> None:
    info, key = data.draw(keys.typed)
    encode = KeyCodec(info).encode
    text = json.dumps(to_jsonable(key, info), allow_nan=False)
    assert encode(key_from_json(text, info)) == encode(key)


@settings(max_examples=80)
@given(data=st.data())
def test_a_value_of_every_type_has_a_json_text(data: st.DataObject, values: Wire) -> None:
    info, value = data.draw(values.typed)
    text = json.dumps(to_jsonable(value, info), allow_nan=False)
    assert json.dumps(to_jsonable(ValueCodec.of(info).read_back(value), info)) == text


@pytest.mark.parametrize(
    ("spec", "text", "key"),
    [
        ("time", '"10:00:00.000005"', time(10, 0, 0, 5)),
        ("instant", '"2013-01-31T10:00:00Z"', datetime(2013, 1, 31, 10, tzinfo=UTC)),
        ("big_int", '"123456789012345678901"', 123456789012345678901),
        ("big_int", "7", 7),
        ("string", '"sensor_1"', "sensor_1"),
        ("bigint", '"9007199254740993"', 9007199254740993),
        ("double", "7", 7),
        ("double", '"1.5"', 1.5),
        ("double", '"-Infinity"', float("-inf")),
        ("decimal(20,2)", "123456789012345678.25", Decimal("123456789012345678.25")),
        ("a string, b int", '{"b": 3, "a": "AA"}', ("AA", 3)),
        ("tuple<string,int>", '["AA", 3]', ("AA", 3)),
        ("date", '"2013-01-31"', date(2013, 1, 31)),
        ("timestamp", '"2013-01-31T10:00:00+02:00"', datetime(2013, 1, 31, 8, tzinfo=UTC)),
    ],
)
def test_keys_as_people_write_them(spec: str, text: str, key: object) -> None:
    assert key_from_json(text, type_info(spec)) == key


@pytest.mark.parametrize(
    ("spec", "text", "says"),
    [
        ("string", "sensor_1", 'not JSON.*"sensor_1"'),
        ("binary", '"%%%"', 'as in "c2Vuc29y"'),
        ("date", "7", '"2013-01-31"'),
        ("date", '"yesterday"', '"2013-01-31"'),
        ("int", '"x"', "as in 7"),
        ("double", '"x"', "as in 1.5"),
        ("array<string>", '"x1"', r"""as in \["sensor_1"\], not as 'x1'$"""),
        ("a string, b int", '{"a": "AA"}', "needs the fields"),
        ("a string, b int", '["AA"]', r'as in \{"a": "sensor_1", "b": 7\}'),
        ("tuple<string,int>", "7", r'as in \["sensor_1", 7\]'),
    ],
)
def test_a_refusal_shows_how_to_write_the_key(spec: str, text: str, says: str) -> None:
    with pytest.raises(InvalidRequestError, match=says):
        key_from_json(text, type_info(spec))


@pytest.mark.parametrize(
    ("spec", "text"), [("string", "7"), ("bigint", "7.0"), ("boolean", "1"), ("bigint", "null")]
)
def test_json_of_another_type_is_refused_when_encoded(spec: str, text: str) -> None:
    with pytest.raises(KeyTypeError):
        KeyCodec(type_info(spec)).encode(key_from_json(text, type_info(spec)))


@pytest.mark.parametrize(
    ("spec", "text", "shown"),
    [
        ("double", '"nan"', "NaN"),
        ("double", '"1.5"', 1.5),
        ("decimal(9,2)", "-20", "-20"),
        ("decimal(9,2)", "33.4", "33.4"),
    ],
)
def test_a_key_is_shown_as_it_was_understood(spec: str, text: str, shown: object) -> None:
    """Numbers may be written as strings, which keep their digits."""
    assert to_jsonable(key_from_json(text, type_info(spec)), type_info(spec)) == shown


def test_a_value_is_readable() -> None:
    spec = (
        "i bigint, d decimal(6,2), b binary, day date, at timestamp, wall timestamp_ntz, "
        "n double, none int, l array<float>, m map<date,int>, p pickled"
    )
    at = datetime(2013, 1, 31, 10, 0, 0, 5, tzinfo=UTC)
    value = (
        7,
        Decimal("1.50"),
        b"sensor",
        date(2013, 1, 31),
        at,
        at.replace(tzinfo=None),
        float("nan"),
        None,
        [0.5, float("-inf")],
        {date(2013, 1, 31): 1},
        PickledValue(b"\x80"),
    )
    state = registration(StateKind.VALUE, spec)
    encoded = ValueCodec.of(type_info(spec)).encode(value)
    text = StateJson(state).records_text(query_pb2.Records(elements=[b""], values=[encoded]))
    assert json.loads(text) == {
        "i": 7,
        "d": "1.50",
        "b": "c2Vuc29y",
        "day": "2013-01-31",
        "at": "2013-01-31T10:00:00.000005Z",
        "wall": "2013-01-31T10:00:00.000005",
        "n": "NaN",
        "none": None,
        "l": [0.5, "-Infinity"],
        "m": {"2013-01-31": 1},
        "p": {"$pickled": "gA=="},
    }


def test_a_list_state_is_its_chunks_together() -> None:
    chunk = ValueCodec.of(Types.LIST("int"))
    state = registration(StateKind.LIST, "int")
    values = [chunk.encode([1, 2]), chunk.encode([3])]
    assert StateCodecs(state).decode_records([b"1", b"2"], values) == [1, 2, 3]
    records = query_pb2.Records(elements=[b"1", b"2"], values=values)
    assert StateJson(state).records_text(records) == "[1, 2, 3]"


def test_a_map_state_is_its_entries_together() -> None:
    key_type = type_info("tuple<string,int>")
    state = registration(StateKind.MAP, "int", map_key_type=key_type.to_proto())
    elements = [KeyCodec(key_type).encode(("ä", i)) for i in range(2)]
    values = [ValueCodec.of(Types.INT()).encode(i) for i in range(2)]
    assert StateCodecs(state).decode_records(elements, values) == {("ä", 0): 0, ("ä", 1): 1}
    records = query_pb2.Records(elements=elements, values=values)
    assert json.loads(StateJson(state).records_text(records)) == {'["ä", 0]': 0, '["ä", 1]': 1}
    with pytest.raises(CorruptDataError, match="2 keys"):
        StateCodecs(state).decode_records(elements, values[:1])


def test_an_aggregate_has_a_codec_for_its_accumulator() -> None:
    state = registration(
        StateKind.AGGREGATING,
        "double",
        accumulator_types=[SchemaVersion(version=3, type=type_info("s double, n int").to_proto())],
    )
    accumulator = StateCodecs(state).accumulator
    assert accumulator is not None
    assert accumulator.decode(accumulator.encode((1.5, 2))).n == 2


def test_a_state_object_without_records_is_corrupt() -> None:
    with pytest.raises(CorruptDataError, match="no record"):
        StateCodecs(registration(StateKind.VALUE, "int")).decode_records([], [])


def test_an_aggregate_that_is_not_queryable_has_an_accumulator_and_no_value() -> None:
    state = registration(StateKind.AGGREGATING, "double")
    state.accumulator_types.add(version=1, type=type_info("struct<s:double,n:bigint>").to_proto())
    del state.value_types[:]
    codecs = StateCodecs(state)
    assert codecs.accumulator is not None
    with pytest.raises(InvalidRequestError, match="keeps no value"):
        codecs.decode_records([b""], [b"\x00\x01"])
