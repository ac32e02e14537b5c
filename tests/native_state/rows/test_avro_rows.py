"""Rows and keys in Avro form: round trips, pinned bytes, evolved schemas, damage."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.native_state.rows.spark_rows import AVRO, Draw, array, fields, map_of, struct_of

from queryable_state.server.native_state.rows.avro_row import AvroForm, avro_row_codec
from queryable_state.server.native_state.rows.avro_values import read_long, write_long
from queryable_state.server.native_state.rows.key_encoders import key_encoder
from queryable_state.server.native_state.rows.spark_types import UnsupportedTypeError
from queryable_state.wire.errors import CorruptDataError, JobError, SerializationError

PROPERTY = settings(max_examples=60)
ROW = ("a", 2, -1.5, 7)
COLUMNS = ("string", "long", "double", "long")
ENCODERS: dict[str, tuple[str, dict[str, Any], str]] = {
    "no prefix": (
        "NoPrefixKeyStateEncoderSpec",
        {},
        "00 0300 02 0261 02 04 02 000000000000f8bf 02 0e",
    ),
    "prefix scan": (
        "PrefixKeyScanStateEncoderSpec",
        {"prefix_columns": 2},
        "06000000 00 02 0261 02 04 00 0300 02 000000000000f8bf 02 0e",
    ),
    "range scan": (
        "RangeKeyScanStateEncoderSpec",
        {"ordering_ordinals": (2, 1)},
        (
            "1b000000 00 020200 0210 4007ffffffffffff 020201 0210 0000000000000002"
            " 00 0300 02 0261 02 0e"
        ),
    ),
    "timestamp first": (
        "TimestampAsPrefixKeyStateEncoderSpec",
        {},
        "8000000000000007 00 0300 02 0261 02 04 02 000000000000f8bf",
    ),
    "timestamp last": (
        "TimestampAsPostfixKeyStateEncoderSpec",
        {},
        "00 0300 02 0261 02 04 02 000000000000f8bf 8000000000000007",
    ),
}


@pytest.mark.parametrize("name", ENCODERS)
def test_bytes_of_keys_are_pinned(name: str) -> None:
    """They are those of Spark's encoders: `test_avro_equals_spark` compares more of them."""
    kind, options, expected = ENCODERS[name]
    encoder = key_encoder(kind, struct_of(*COLUMNS), form=AvroForm(3), **options)
    assert encoder.encode_key(ROW).hex() == expected.replace(" ", "")
    assert encoder.decode_key(bytes.fromhex(expected)) == ROW


def test_bytes_of_values_are_pinned() -> None:
    types = ("boolean", "decimal(9,2)", map_of("string", "integer"), array("boolean"), "void")
    row = (True, Decimal("-3.78"), {"a": -1}, None, None)
    expected = "0400 02 01 02 fffffe86 02 02 0261 01 00 00"
    codec = avro_row_codec({4: struct_of(*types)}, 4)
    assert codec.encode(row).hex() == expected.replace(" ", "")
    assert codec.decode(bytes.fromhex(expected)) == row


@PROPERTY
@given(st.lists(st.sampled_from(AVRO), max_size=6), st.integers(0, 1 << 32))
def test_rows_come_back_whole(chosen: list[object], seed: int) -> None:
    struct = struct_of(*chosen)
    codec = avro_row_codec({0: struct}, 0)
    for row in Draw(seed, null_items=False).rows(struct, 3):
        assert codec.decode(codec.encode(row)) == row


@PROPERTY
@given(st.lists(st.sampled_from(AVRO), max_size=5), st.integers(0, 1 << 32), st.data())
def test_damaged_rows_are_refused_or_read_as_other_rows(
    chosen: list[object], seed: int, data: st.DataObject
) -> None:
    """Never with an error of Python."""
    struct = struct_of(*chosen)
    codec = avro_row_codec({0: struct}, 0)
    damaged = bytearray(codec.encode(Draw(seed, null_items=False).row(struct)))
    for _ in range(data.draw(st.integers(0, 3))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(damaged)))
    for row in (bytes(damaged), bytes(damaged[:cut])):
        try:
            codec.decode(row)
        except CorruptDataError:
            pass


@given(st.integers(-(1 << 63), (1 << 63) - 1))
def test_numbers_come_back(number: int) -> None:
    assert read_long(write_long(number), 0) == (number, len(write_long(number)))


def test_rows_of_an_older_schema_are_read_as_the_newest_one() -> None:
    """A field was added, one dropped, one widened, and one moved."""
    old = struct_of("integer", "string", fields("integer"))
    new = struct_of("long", "string", fields("integer", "date"), "double").select((0, 2, 3))
    codec = avro_row_codec({0: old, 1: new}, 1)
    written = avro_row_codec({0: old}, 0).encode((7, "a", (1,)))
    assert codec.decode(written) == (7, (1, None), None)
    assert codec.decode(codec.encode((7, (1, None), 1.5))) == (7, (1, None), 1.5)


def test_schemas_that_do_not_follow_each_other_are_refused() -> None:
    with pytest.raises(JobError):
        avro_row_codec({0: struct_of("string"), 1: struct_of("date")}, 1)


@pytest.mark.parametrize("data", ["", "00", "0100 02 02", "0000", "0000 04", "0000 02 02 00"])
def test_bytes_that_spark_does_not_write_are_corrupt(data: str) -> None:
    """Without id, of an unknown id, cut off, of no branch, with bytes behind."""
    with pytest.raises(CorruptDataError):
        avro_row_codec({0: struct_of("long")}, 0).decode(bytes.fromhex(data))


@pytest.mark.parametrize(
    "unstored", ["byte", "interval", "time(6)", map_of("long", "long"), array("void")]
)
def test_types_that_spark_does_not_store_as_avro_are_refused(unstored: object) -> None:
    with pytest.raises(UnsupportedTypeError):
        avro_row_codec({0: struct_of(unstored)}, 0)


@pytest.mark.parametrize(
    ("spark_type", "value"),
    [("integer", 1 << 31), ("long", 1.5), (array("long"), [None]), (AVRO[-3], [1]), ("void", 1)],
)
def test_values_of_other_types_are_refused(spark_type: object, value: object) -> None:
    with pytest.raises(SerializationError):
        avro_row_codec({0: struct_of(spark_type)}, 0).encode((value,))
