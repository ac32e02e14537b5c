"""Spark's Murmur3 hash of keys, and the key groups that follow from it.

The hashes in `fixtures/spark_hashes.json` are the JVM's, as `test_partitions_equal_spark` holds.
"""

from __future__ import annotations

import pickle
from typing import Any

import pytest
from tests.wire.keys.spark_keys import HASHED, hash_fixture, nullable

from queryable_state.v1 import registration_pb2
from queryable_state.wire.errors import InvalidRequestError, KeyTypeError
from queryable_state.wire.keys.chained_hash import SEED
from queryable_state.wire.keys.key_groups import KeyGroups
from queryable_state.wire.keys.spark_hash import hash_bytes, spark_hasher
from queryable_state.wire.schema.type_model import TypeInfo
from queryable_state.wire.schema.types import type_info
from queryable_state.wire.state_codecs import StateCodecs
from queryable_state.wire.state_json import StateJson

SPARK_HASH, XXHASH64 = registration_pb2.SPARK_HASH, registration_pb2.XXHASH64


@pytest.mark.parametrize("name", HASHED)
def test_hashes_are_those_of_the_jvm(name: str) -> None:
    spec, key = HASHED[name]
    assert signed(spark_hasher(nullable(spec))(key, SEED)) == hash_fixture()[name]


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", 142593372),
        (b"\xff", 1398487324),
        (b"abcd", -396302900),
        (b"\x80\x7f\x00\xff\xfe", -1331321963),
    ],
)
def test_bytes_after_the_last_word_are_signed_words(data: bytes, expected: int) -> None:
    assert signed(hash_bytes(data, SEED)) == expected


def test_a_key_group_is_sparks_partition() -> None:
    """`pmod`, so the partition of a negative hash is positive."""
    for count in (1, 5, 200):
        groups = KeyGroups(nullable("a string, b int"), count, SPARK_HASH)
        for name in ("row", "row with a null", "row of nulls"):
            key = HASHED[name][1]
            assert groups.of(key) == hash_fixture()[name] % count
            assert groups.decode_key(groups.wire_key(key)) == key
            assert groups.wire_keys([key]) == [groups.wire_key(key)]


def test_copies_keep_the_partitioner() -> None:
    groups = pickle.loads(pickle.dumps(KeyGroups(type_info("string"), 200, SPARK_HASH)))
    assert groups.of("sensor_1") == hash_fixture()["string"] % 200


def test_a_registration_gives_the_partitioner_to_every_reader() -> None:
    state = registration_pb2.StateRegistration(
        kind=registration_pb2.VALUE,
        key_type=nullable("string").to_proto(),
        value_types=[registration_pb2.SchemaVersion(version=1, type=type_info("int").to_proto())],
        max_parallelism=200,
        partitioner=SPARK_HASH,
    )
    expected = (hash_fixture()["string"] % 200).to_bytes(2, "big") + b"\x01sensor_1\x00\x01"
    assert StateCodecs(state).key_groups.wire_key("sensor_1") == expected
    assert StateJson(state).wire_key('"sensor_1"') == expected
    assert StateJson(state).wire_key("null") == (SEED % 200).to_bytes(2, "big") + b"\x00"
    assert StateJson(state).key_text(StateJson(state).wire_key("null")) == "null"


def test_an_unknown_partitioner_is_refused() -> None:
    unknown: Any = 7
    with pytest.raises(InvalidRequestError, match="partitioner 7"):
        KeyGroups(type_info("string"), 200, unknown)


@pytest.mark.parametrize("value", [None, 7, b"a"])
def test_values_of_another_type_are_refused(value: object) -> None:
    with pytest.raises(KeyTypeError):
        KeyGroups(type_info("string"), 200, SPARK_HASH).wire_key(value)


def test_types_that_no_key_has_are_refused() -> None:
    with pytest.raises(KeyTypeError, match="map<int,int>"):
        spark_hasher(type_info("map<int,int>"))
    for partitioner in (XXHASH64, SPARK_HASH):
        with pytest.raises(KeyTypeError, match="array<int>"):
            KeyGroups(type_info("array<int>"), 200, partitioner)


def signed(unsigned: int) -> int:
    return unsigned - (1 << 32) if unsigned >= 1 << 31 else unsigned


def test_nullable_is_part_of_a_type_and_of_its_message() -> None:
    info = nullable("a string, b int")
    assert TypeInfo.from_proto(info.to_proto()) == info != type_info("a string, b int")
