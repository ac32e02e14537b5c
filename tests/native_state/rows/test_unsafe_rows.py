"""Spark's UnsafeRow: round trips over all types, pinned bytes, damage."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.native_state.rows.spark_rows import COMPOSITES, OTHERS, SCALARS, Draw, map_of, struct_of

from queryable_state.server.native_state.rows.unsafe_row import unsafe_row_codec
from queryable_state.wire.errors import CorruptDataError, SerializationError
from queryable_state.wire.values.value_codec import ValueCodec

PROPERTY = settings(max_examples=60)
TYPES = (*SCALARS, *COMPOSITES, *OTHERS)


def types() -> st.SearchStrategy[list[object]]:
    return st.lists(st.sampled_from(TYPES), max_size=6)


@PROPERTY
@given(types(), st.integers(0, 1 << 32))
def test_rows_come_back_whole(chosen: list[object], seed: int) -> None:
    struct = struct_of(*chosen)
    codec = unsafe_row_codec(struct)
    for row in Draw(seed).rows(struct, 3):
        data = codec.encode(row)
        assert len(data) % 8 == 0
        assert codec.decode(data) == row
        # Values are as the codec of values takes and returns them.
        values = ValueCodec.of(codec.row_type)
        assert values.decode(values.encode(codec.decode(data))) == row


@PROPERTY
@given(types(), st.integers(0, 1 << 32), st.data())
def test_damaged_rows_are_refused_or_read_as_other_rows(
    chosen: list[object], seed: int, data: st.DataObject
) -> None:
    """Never with an error of Python."""
    struct = struct_of(*chosen)
    codec = unsafe_row_codec(struct)
    damaged = bytearray(codec.encode(Draw(seed).row(struct)))
    for _ in range(data.draw(st.integers(0, 3))):
        if damaged:
            place = data.draw(st.integers(0, len(damaged) - 1))
            damaged[place] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(damaged)))
    for row in (bytes(damaged), bytes(damaged[:cut]), bytes(damaged) + b"\x00"):
        try:
            codec.decode(row)
        except CorruptDataError:
            pass


PINNED: dict[str, tuple[tuple[object, ...], tuple[Any, ...], str]] = {
    "numbers": (
        ("integer", "double"),
        (7, 1.5),
        "0000000000000000 0700000000000000 000000000000f83f",
    ),
    "text and a null": (
        ("string", "long", "string"),
        ("sensor_12", None, ""),
        (
            "0200000000000000 0900000020000000 0000000000000000 0000000030000000"
            " 73656e736f725f31 3200000000000000"
        ),
    ),
    "decimals, of which a long null reserves its bytes": (
        ("decimal(9,2)", "decimal(20,2)", "decimal(20,2)"),
        (Decimal("-1.50"), None, Decimal("1.50")),
        (
            "0200000000000000 6affffffffffffff 0000000020000000 0200000030000000"
            " 0000000000000000 0000000000000000 0096000000000000 0000000000000000"
        ),
    ),
    "map": (
        (map_of("string", "short"),),
        ({"a": 1, "b": None},),
        (
            "0000000000000000 5000000010000000 3000000000000000 0200000000000000 0000000000000000"
            " 0100000020000000 0100000028000000 6100000000000000 6200000000000000 0200000000000000"
            " 0200000000000000 0100000000000000"
        ),
    ),
}


@pytest.mark.parametrize("name", PINNED)
def test_bytes_are_pinned(name: str) -> None:
    """`test_unsafe_rows_equal_spark` compares the bytes with the JVM's."""
    chosen, row, expected = PINNED[name]
    codec = unsafe_row_codec(struct_of(*chosen))
    assert codec.encode(row).hex(" ", 8) == expected
    assert codec.decode(bytes.fromhex(expected)) == row


@pytest.mark.parametrize(
    ("chosen", "data"),
    [
        (("long",), ""),
        (("long",), "0000000000000000"),
        (("long",), "0200000000000000 0000000000000000"),
        (("string",), "0000000000000000 0900000010000000 6161616161616161"),
        (("string",), "0000000000000000 0100000008000000 6161616161616161"),
        (("string",), "0000000000000000 0100000010000000 ff00000000000000"),
        (("date",), "0000000000000000 ffffff7f00000000"),
        (("time(6)",), "0000000000000000 0100000000000000"),
        (("decimal(3,0)",), "0000000000000000 e803000000000000"),
        (("void",), "0000000000000000 0000000000000000"),
        (
            (map_of("long", "long"),),
            (
                "0000000000000000 4000000010000000 2000000000000000 0200000000000000"
                " 0000000000000000 0700000000000000 0700000000000000 0000000000000000"
            ),
        ),
    ],
)
def test_bytes_that_spark_does_not_write_are_corrupt(chosen: tuple[str, ...], data: str) -> None:
    with pytest.raises(CorruptDataError):
        unsafe_row_codec(struct_of(*chosen)).decode(bytes.fromhex(data))


@pytest.mark.parametrize(
    ("spark_type", "value"),
    [
        ("boolean", 1),
        ("byte", 128),
        ("integer", True),
        ("long", "7"),
        ("double", "7"),
        ("string", b"a"),
        ("string", "\ud800"),
        ("binary", "a"),
        ("date", "2013-01-31"),
        ("decimal(5,2)", Decimal("1000")),
        ("decimal(20,2)", Decimal("0.001")),
        ("interval", (1, 2)),
        ("void", 1),
        (COMPOSITES[0], "ab"),
        (COMPOSITES[-1], ("a",)),
    ],
)
def test_values_of_other_types_are_refused(spark_type: object, value: object) -> None:
    codec = unsafe_row_codec(struct_of(spark_type))
    with pytest.raises(SerializationError):
        codec.encode((value,))


def test_a_row_needs_all_its_fields() -> None:
    codec = unsafe_row_codec(struct_of("long", "long"))
    with pytest.raises(SerializationError, match="2 fields"):
        codec.encode((1,))
