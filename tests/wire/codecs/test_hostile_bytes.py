"""Bytes from anywhere give a value or a typed error: no other exception, no hang, no huge list."""

from __future__ import annotations

import json
import tracemalloc
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest
from google.protobuf.message import DecodeError
from hypothesis import given, settings
from hypothesis import strategies as st

from queryable_state.internal.v1.changes_pb2 import ChangeBlock, Seal
from queryable_state.v1 import query_pb2, registration_pb2, types_pb2
from queryable_state.wire.changelog import read_changelog, write_changelog
from queryable_state.wire.changes import read_block
from queryable_state.wire.errors import CorruptDataError, QueryableStateError
from queryable_state.wire.json_text import key_from_json
from queryable_state.wire.keys.key_codec import KeyCodec
from queryable_state.wire.keys.key_groups import KeyGroups
from queryable_state.wire.keys.store_keys import chunk_of, record_key, split_record_key, window_of
from queryable_state.wire.schema.types import TypeInfo, type_info
from queryable_state.wire.state_json import StateJson
from queryable_state.wire.values.value_codec import ValueCodec, is_stale, read_header

if TYPE_CHECKING:
    from tests.wire.conftest import Wire

# A busy machine stalls: a slow example is no failure.
PROPERTY = settings(max_examples=50)


def mangled(data: st.DataObject, good: bytes) -> bytes:
    """Random bytes, or good ones cut, changed, doubled or with something in between."""
    how = data.draw(st.sampled_from(("random", "cut", "flip", "insert", "drop")))
    at = data.draw(st.integers(0, len(good)))
    noise = data.draw(st.binary(max_size=12))
    if how == "random":
        return noise
    if how == "cut":
        return good[:at]
    if how == "insert":
        return good[:at] + noise + good[at:]
    if how == "drop":
        return good[:at] + good[at + 1 :]
    return good[:at] + noise + good[at + len(noise) :]


@PROPERTY
@given(data=st.data())
def test_keys(data: st.DataObject, keys: Wire) -> None:
    info, key = data.draw(keys.typed)
    groups = KeyGroups(info)
    bad = mangled(data, groups.wire_key(key))
    with suppress(CorruptDataError):
        groups.decode_key(bad)
    with suppress(CorruptDataError):
        split_record_key(record_key(bad, b"\x00", b"x"), groups.codec)


@PROPERTY
@given(data=st.data())
def test_a_key_that_is_read_is_the_only_encoding_of_its_value(
    data: st.DataObject, keys: Wire
) -> None:
    info, key = data.draw(keys.typed)
    codec = KeyCodec(info)
    bad = mangled(data, codec.encode(key))
    with suppress(CorruptDataError):
        assert codec.encode(codec.decode_all(bad)) == bad


@PROPERTY
@given(data=st.data())
def test_values(data: st.DataObject, values: Wire) -> None:
    info, value = data.draw(values.typed)
    codec = ValueCodec.of(info)
    bad = mangled(data, codec.encode(value, data.draw(st.none() | st.integers(0, 9))))
    for read in (codec.decode, read_header):
        with suppress(CorruptDataError):
            read(bad)
    with suppress(CorruptDataError):
        is_stale(bad, 5)


@PROPERTY
@given(data=st.data())
def test_payloads_behind_a_good_header(data: st.DataObject, values: Wire) -> None:
    codec = ValueCodec.of(data.draw(values.types))
    with suppress(CorruptDataError):
        codec.decode(codec.header + data.draw(st.binary(max_size=40)))


@pytest.mark.parametrize("spec", ["array<bigint>", "array<string>", "map<int,int>", "s string"])
def test_a_hostile_count_allocates_nothing(spec: str) -> None:
    codec = ValueCodec.of(type_info(spec))
    tracemalloc.start()
    try:
        for lead in (b"", b"\x00"):
            with pytest.raises(CorruptDataError):
                codec.decode(codec.header + lead + b"\xff\xff\xff\xff" + bytes(64))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 1 << 20


_BLOCK = ChangeBlock(
    format_version=1,
    state_id=7,
    cleared_prefixes=[b"\x00\x01aa\x00"],
    deleted_keys=[b"\x00\x01ab\x00"],
    put_keys=[b"\x00\x01ac\x00", b"\x00\x01ad\x00"],
    put_values=[b"\x00\x01x", b"\x00\x01y"],
).SerializeToString()


@PROPERTY
@given(data=st.data())
def test_blocks_and_changelogs(data: st.DataObject) -> None:
    with suppress(CorruptDataError):
        read_block(mangled(data, _BLOCK))
    whole = write_changelog([_BLOCK], Seal(record_count=5), batch_id=3, offsets_digest=b"d")
    with pytest.raises(CorruptDataError):
        # Its checksum is not that of the block.
        read_changelog(whole)
    with suppress(CorruptDataError):
        read_changelog(mangled(data, whole))


@PROPERTY
@given(st.binary(max_size=40))
def test_namespaces_and_elements(data: bytes) -> None:
    for read in (window_of, chunk_of):
        with suppress(CorruptDataError):
            read(data)


@PROPERTY
@given(data=st.data())
def test_types_from_the_wire(data: st.DataObject, values: Wire) -> None:
    good = data.draw(values.types).to_proto().SerializeToString()
    with suppress(DecodeError):
        proto = types_pb2.TypeInfo.FromString(mangled(data, good))
        with suppress(QueryableStateError):
            TypeInfo.from_proto(proto)


def test_a_type_nested_without_end_is_refused() -> None:
    proto = types_pb2.TypeInfo(kind=types_pb2.TypeInfo.INT)
    for _ in range(90):
        proto = types_pb2.TypeInfo(kind=types_pb2.TypeInfo.LIST, element=proto)
    with pytest.raises(QueryableStateError, match="levels deep"):
        TypeInfo.from_proto(proto)
    for spec in ("array<" * 100_000 + "int", "a struct<" * 5000, "tuple<" * 5000):
        with pytest.raises(QueryableStateError, match="levels deep"):
            type_info(spec)


@PROPERTY
@given(data=st.data(), text=st.text("abint<>,:(19)`' ", max_size=30))
def test_written_types(data: st.DataObject, values: Wire, text: str) -> None:
    good = data.draw(values.types).simple_string()
    at = data.draw(st.integers(0, len(good)))
    for spec in (text, good[:at], good[:at] + text + good[at:]):
        with suppress(QueryableStateError):
            type_info(spec)


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=5,
)


@PROPERTY
@given(data=st.data(), parsed=_JSON, text=st.text(max_size=10))
def test_json_keys(data: st.DataObject, keys: Wire, parsed: object, text: str) -> None:
    info = data.draw(keys.types)
    encode = KeyCodec(info).encode
    for written in (json.dumps(parsed), text, "[" * 10_000, "9" * 5000, "1e999999", "-1e-999999"):
        with suppress(QueryableStateError):
            encode(key_from_json(written, info))


@PROPERTY
@given(data=st.data(), elements=st.lists(st.binary(max_size=8), max_size=2))
def test_json_of_records(data: st.DataObject, values: Wire, elements: list[bytes]) -> None:
    info, value = data.draw(values.typed)
    bad = mangled(data, ValueCodec.of(info).encode(value))
    for kind in registration_pb2.StateKind.values():
        registration = registration_pb2.StateRegistration(
            kind=kind,
            key_type=type_info("string").to_proto(),
            map_key_type=type_info("string").to_proto(),
            max_parallelism=128,
            value_types=[registration_pb2.SchemaVersion(version=1, type=info.to_proto())],
        )
        with suppress(QueryableStateError):
            StateJson(registration).records_text(query_pb2.Records(elements=elements, values=[bad]))
