"""Every stored or sent format, byte by byte: a change here is a decision, not an accident.

The expected bytes stand in `fixtures/*.json`; the objects they are made of stand here.
"""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from queryable_state.wire.changelog import read_changelog, write_changelog
from queryable_state.wire.changes import ChangeBlockBuilder, Token
from queryable_state.wire.keys.key_codec import KeyCodec
from queryable_state.wire.keys.key_groups import KeyGroups
from queryable_state.wire.keys.store_keys import (
    ACCUMULATOR_ELEMENT,
    RESULT_ELEMENT,
    VOID_NAMESPACE,
    list_element,
    micros_namespace,
    window_namespace,
)
from queryable_state.wire.schema.instant import Instant
from queryable_state.wire.schema.type_model import Kind, SerializerFormat, TypeInfo
from queryable_state.wire.schema.types import type_info
from queryable_state.wire.values.pickled import PickledValue
from queryable_state.wire.values.serialized import SerializedValue
from queryable_state.wire.values.value_codec import ValueCodec, header_of, read_header

FIXTURES = Path(__file__).parent / "fixtures"

KEYS: dict[str, tuple[str, Any]] = {
    "boolean": ("boolean", True),
    "byte": ("tinyint", -128),
    "short": ("smallint", -2),
    "int": ("int", 7),
    "long": ("bigint", -(1 << 63)),
    "float": ("float", -1.5),
    "double": ("double", 1.5),
    "double, zero": ("double", -0.0),
    "double, not a number": ("double", float("nan")),
    "decimal of 18 digits": ("decimal(18,2)", Decimal("-1234.50")),
    "decimal of 38 digits": ("decimal(38,10)", Decimal("12345678901234567890.5")),
    "string": ("string", "sensor_1"),
    "string, empty": ("string", ""),
    "string, not ASCII, with a zero": ("string", "é\x00日"),
    "binary": ("binary", b"\x00\x01\xff"),
    "date": ("date", date(2013, 1, 31)),
    "timestamp": ("timestamp", datetime(2013, 1, 31, 10, 0, 0, 5, tzinfo=UTC)),
    "timestamp_ntz": ("timestamp_ntz", datetime(1969, 12, 31, 23, 59, 59)),  # noqa: DTZ001
    "time": ("time", time(23, 59, 59, 5)),
    "instant": ("instant", Instant(-1, 5000)),
    "big_int": ("big_int", -(10**38 - 1)),
    "row": ("a string, b int", ("AA", 3)),
    "tuple": ("tuple<string,tuple<bigint,boolean>>", ("", (-1, False))),
}

VALUES: dict[str, tuple[str, Any]] = {
    "boolean": ("boolean", True),
    "byte": ("tinyint", -2),
    "short": ("smallint", -2),
    "int": ("int", 7),
    "long": ("bigint", -2),
    "float": ("float", 1.5),
    "double": ("double", 1.5),
    "decimal": ("decimal(10,2)", Decimal("-1234.50")),
    "string": ("string", "é"),
    "binary": ("binary", b"\x00\x01"),
    "pickled": ("pickled", PickledValue(b"\x80\x05N.")),
    "date": ("date", date(2013, 1, 31)),
    "timestamp": ("timestamp", datetime(2013, 1, 31, 10, 0, 0, 5, tzinfo=UTC)),
    "timestamp_ntz": ("timestamp_ntz", datetime(1969, 12, 31, 23, 59, 59)),  # noqa: DTZ001
    "time": ("time", time(23, 59, 59, 5)),
    "instant": ("instant", Instant(-1, 5000)),
    "big_int": ("big_int", 2**70),
    "row of numbers": ("a int, b double", (1, 2.0)),
    "row": ("a string, b binary, c decimal(4,1)", ("x", None, Decimal("0.5"))),
    "row of nine, the last null": (
        "tuple<boolean,boolean,boolean,boolean,boolean,boolean,boolean,boolean,string>",
        (True,) * 8 + (None,),
    ),
    "list of numbers": ("array<smallint>", [1, 2]),
    "list with a null": ("array<string>", ["x", None]),
    "map": ("map<string,int>", {"a": 1, "b": None}),
    "nested": ("array<struct<m:map<int,array<date>>>>", [({1: [date(1970, 1, 2)]},), None]),
}

NAMESPACES = {
    "void": VOID_NAMESPACE,
    "window": window_namespace(-1000, 1_700_000_000_000),
    "window of microseconds": micros_namespace(-1_000_000, 1_700_000_000_000_200),
}

ELEMENTS = {
    "result": RESULT_ELEMENT,
    "accumulator": ACCUMULATOR_ELEMENT,
    "chunk of a list": list_element(5, 2),
}

HEADERS = {
    "schema version 1": header_of(1),
    "schema version 300": header_of(300),
    "with a timestamp": header_of(1, 1_700_000_000_000),
    "null in a map state": ValueCodec({300: type_info("int")}, 300).null,
}


def fixture(name: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((FIXTURES / f"{name}.json").read_text(encoding="utf-8"))
    return content


def key_bytes(spec: str, key: Any) -> str:
    return KeyCodec(type_info(spec)).encode(key).hex()


def value_bytes(spec: str, value: Any) -> str:
    return ValueCodec.of(type_info(spec)).encode(value).hex()


def key_groups(spec: str, key: Any) -> dict[str, int]:
    return {str(m): KeyGroups(type_info(spec), m).of(key) for m in (100, 128, 32767)}


def changelog() -> tuple[list[bytes], bytes]:
    """The blocks of one batch and the file they are kept in."""
    builder = ChangeBlockBuilder(7)
    builder.clear_prefix(b"\x00\x01a\x00\x01\x00")
    builder.delete(b"\x00\x01b\x00\x01\x00")
    builder.put(b"\x00\x01c\x00\x01\x00", b"\x00\x01x")
    builder.operator_state([b"x"])
    blocks = builder.finish()
    seal = builder.sums.seal(Token(run_epoch=2, task_attempt=9), fingerprint=11, row_count=4)
    return blocks, write_changelog(blocks, seal, batch_id=5, offsets_digest=b"\x01\x02")


@pytest.mark.parametrize("name", KEYS)
def test_keys(name: str) -> None:
    spec, key = KEYS[name]
    expected = fixture("keys")[name]
    assert key_bytes(spec, key) == expected
    assert KeyCodec(type_info(spec)).encode(
        KeyCodec(type_info(spec)).decode_all(bytes.fromhex(expected))
    ) == bytes.fromhex(expected)


@pytest.mark.parametrize("name", KEYS)
def test_key_groups(name: str) -> None:
    assert key_groups(*KEYS[name]) == fixture("key_groups")[name]


@pytest.mark.parametrize("name", VALUES)
def test_values(name: str) -> None:
    spec, value = VALUES[name]
    expected = fixture("values")[name]
    assert value_bytes(spec, value) == expected
    assert ValueCodec.of(type_info(spec)).decode(bytes.fromhex(expected)) == value


@pytest.mark.parametrize("name", VALUES)
def test_types(name: str) -> None:
    """As a registration stores them."""
    info = type_info(VALUES[name][0])
    expected = bytes.fromhex(fixture("types")[name])
    assert info.to_proto().SerializeToString(deterministic=True) == expected
    assert TypeInfo.from_proto(type(info.to_proto()).FromString(expected)) == info


def test_types_of_a_serializer_of_the_job() -> None:
    info = TypeInfo(Kind.CUSTOM, serializer_format=SerializerFormat("app.Text", 2, b"utf-8"))
    data = info.to_proto().SerializeToString(deterministic=True)
    assert data.hex() == fixture("types")["custom"]
    assert ValueCodec.of(info).encode(SerializedValue(b"a")).hex() == fixture("values")["custom"]


def test_headers() -> None:
    assert {name: data.hex() for name, data in HEADERS.items()} == fixture("headers")
    assert read_header(HEADERS["with a timestamp"]).timestamp_ms == 1_700_000_000_000


def test_namespaces_and_elements() -> None:
    assert {name: data.hex() for name, data in NAMESPACES.items()} == fixture("namespaces")
    assert {name: data.hex() for name, data in ELEMENTS.items()} == fixture("elements")


def test_blocks_and_changelogs() -> None:
    blocks, data = changelog()
    expected = fixture("changelog")
    assert [block.hex() for block in blocks] == expected["blocks"]
    assert data.hex() == expected["file"]
    assert read_changelog(bytes.fromhex(expected["file"])).seal.row_count == 4
