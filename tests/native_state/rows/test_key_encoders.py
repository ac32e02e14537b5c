"""Raw keys of state stores: round trips, prefixes, order, pinned bytes, damage."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.native_state.rows.spark_rows import Draw, struct_of

from queryable_state.server.native_state.rows.key_encoder import KeyEncoder, without_version
from queryable_state.server.native_state.rows.key_encoders import (
    in_column_family,
    key_encoder,
    split_column_family,
)
from queryable_state.server.native_state.rows.spark_types import UnsupportedTypeError
from queryable_state.wire.errors import CorruptDataError, SerializationError

PROPERTY = settings(max_examples=80)
COLUMNS = ("string", "long", "double", "long")
ENCODERS: dict[str, KeyEncoder] = {
    "no prefix": key_encoder("NoPrefixKeyStateEncoderSpec", struct_of(*COLUMNS)),
    "prefix scan": key_encoder(
        "PrefixKeyScanStateEncoderSpec", struct_of(*COLUMNS), prefix_columns=2
    ),
    "range scan": key_encoder(
        "RangeKeyScanStateEncoderSpec", struct_of(*COLUMNS), ordering_ordinals=(2, 1)
    ),
    "range scan of all columns": key_encoder(
        "RangeKeyScanStateEncoderSpec", struct_of("long", "float"), ordering_ordinals=(0, 1)
    ),
    "timestamp first": key_encoder("TimestampAsPrefixKeyStateEncoderSpec", struct_of(*COLUMNS)),
    "timestamp last": key_encoder("TimestampAsPostfixKeyStateEncoderSpec", struct_of(*COLUMNS)),
}
ROW = ("a", 2, -1.5, 7)
PINNED = {
    "no prefix": (
        ROW,
        (
            "00 0000000000000000 0100000028000000 0200000000000000 000000000000f8bf"
            " 0700000000000000 6100000000000000"
        ),
    ),
    "prefix scan": (
        ROW,
        (
            "21000000 00 0000000000000000 0100000018000000 0200000000000000 6100000000000000"
            " 00 0000000000000000 000000000000f8bf 0700000000000000"
        ),
    ),
    "range scan": (
        ROW,
        (
            "39000000 00 0000000000000000 0900000018000000 0900000028000000"
            " 004007ffffffffff ff00000000000000 0100000000000000 0200000000000000"
            " 00 0000000000000000 0100000018000000 0700000000000000 6100000000000000"
        ),
    ),
    "range scan of all columns": (
        (None, -0.0),
        (
            "31000000 00 0000000000000000 0900000018000000 0500000028000000"
            " 0200000000000000 0000000000000000 007fffffff000000 00"
        ),
    ),
    "timestamp first": (
        ROW,
        (
            "8000000000000007 00 0000000000000000 0100000020000000 0200000000000000"
            " 000000000000f8bf 6100000000000000"
        ),
    ),
    "timestamp last": (
        ROW,
        (
            "00 0000000000000000 0100000020000000 0200000000000000 000000000000f8bf"
            " 6100000000000000 8000000000000007"
        ),
    ),
}


@pytest.mark.parametrize("name", ENCODERS)
def test_bytes_are_pinned(name: str) -> None:
    """`test_key_encoders_equal_spark` compares the encoders with Spark's."""
    row, expected = PINNED[name]
    assert ENCODERS[name].encode_key(row).hex() == expected.replace(" ", "")
    assert ENCODERS[name].decode_key(bytes.fromhex(expected)) == row


@pytest.mark.parametrize("name", ENCODERS)
@PROPERTY
@given(st.integers(0, 1 << 32))
def test_keys_come_back_whole(name: str, seed: int) -> None:
    encoder = ENCODERS[name]
    for row in Draw(seed).rows(encoder.struct, 3):
        if "timestamp" in name and row[-1] is None:
            continue
        assert encoder.decode_key(encoder.encode_key(row)) == row


@PROPERTY
@given(st.integers(0, 1 << 32), st.integers(0, 1 << 32))
def test_keys_begin_with_their_prefix(one: int, other: int) -> None:
    """And no other key does."""
    prefixes: dict[str, Any] = {
        "prefix scan": lambda row: row[:2],
        "range scan": lambda row: (row[2], row[1]),
        "timestamp first": lambda row: row[3:],
        "timestamp last": lambda row: row[:3],
    }
    for name, prefix_of in prefixes.items():
        encoder = ENCODERS[name]
        first, second = (Draw(seed).row(encoder.struct, 0.0) for seed in (one, other))
        prefix = encoder.encode_prefix(prefix_of(first))
        assert encoder.encode_key(first).startswith(prefix)
        alike = encoder.encode_key(second).startswith(prefix)
        assert alike == (prefix_of(first) == prefix_of(second))


@pytest.mark.parametrize(
    ("spark_type", "ordered"),
    [
        ("byte", [-128, -1, 0, 127, None]),
        ("short", [-32768, -1, 0, 32767, None]),
        ("integer", [-(1 << 31), -1, 0, (1 << 31) - 1, None]),
        ("long", [-(1 << 63), -1, 0, (1 << 63) - 1, None]),
        ("float", [-math.inf, -1.5, -0.0, 0.0, 1.5, math.inf, None]),
        ("double", [-math.inf, -1.5, -5e-324, 0.0, 1e300, math.inf, None]),
    ],
)
def test_range_keys_sort_as_their_numbers(spark_type: str, ordered: list[Any]) -> None:
    """Nulls last."""
    encoder = key_encoder(
        "RangeKeyScanStateEncoderSpec", struct_of(spark_type, "string"), ordering_ordinals=(0,)
    )
    keys = [encoder.encode_key((number, "a")) for number in ordered]
    assert sorted(keys) == keys
    assert [encoder.decode_key(key)[0] for key in keys] == ordered


def test_timestamps_sort_before_and_after_the_epoch() -> None:
    encoder = ENCODERS["timestamp first"]
    keys = [encoder.encode_key(("a", 1, 1.0, time)) for time in (-(1 << 63), -1, 0, 1)]
    assert sorted(keys) == keys
    assert encoder.encode_prefix(()) == b""


def test_column_families_stand_before_keys() -> None:
    assert in_column_family(258, b"key") == b"\x02\x01key"
    assert split_column_family(b"\xff\xffkey") == (-1, b"key")
    with pytest.raises(CorruptDataError):
        split_column_family(b"\x00")


@pytest.mark.parametrize("name", ENCODERS)
@PROPERTY
@given(data=st.data())
def test_damaged_keys_are_refused_or_read_as_other_keys(name: str, data: st.DataObject) -> None:
    encoder = ENCODERS[name]
    damaged = bytearray(encoder.encode_key(PINNED[name][0]))
    for _ in range(data.draw(st.integers(0, 2))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(damaged)))
    for key in (bytes(damaged), bytes(damaged[:cut])):
        try:
            encoder.decode_key(key)
        except CorruptDataError:
            pass


def test_another_version_of_a_row_is_corrupt() -> None:
    for data in (b"", b"\x01\x00"):
        with pytest.raises(CorruptDataError, match="version"):
            without_version(data)


def test_unknown_encoders_and_columns_are_refused() -> None:
    with pytest.raises(UnsupportedTypeError, match="NewEncoderSpec"):
        key_encoder("NewEncoderSpec", struct_of("long"))
    with pytest.raises(UnsupportedTypeError, match="string"):
        key_encoder("RangeKeyScanStateEncoderSpec", struct_of("string"), ordering_ordinals=(0,))
    with pytest.raises(UnsupportedTypeError, match="prefix"):
        ENCODERS["no prefix"].encode_prefix(("a",))
    for kind, options in (
        ("PrefixKeyScanStateEncoderSpec", {"prefix_columns": 4}),
        ("RangeKeyScanStateEncoderSpec", {"ordering_ordinals": (4,)}),
    ):
        with pytest.raises(CorruptDataError):
            key_encoder(kind, struct_of(*COLUMNS), **json.loads(json.dumps(options)))
    with pytest.raises(CorruptDataError, match="timestamp"):
        key_encoder("TimestampAsPrefixKeyStateEncoderSpec", struct_of("string"))


@pytest.mark.parametrize("name", ENCODERS)
def test_values_of_other_types_are_refused(name: str) -> None:
    encoder = ENCODERS[name]
    row = [object()] * len(encoder.struct.fields)
    with pytest.raises(SerializationError):
        encoder.encode_key(row)
