"""Raw values: one row, several with and without delimiters and checksums, and damaged ones."""

from __future__ import annotations

import struct

import pytest

from queryable_state.server.native_state.operators.stored_rows import Framing, UnsafeStoredRows
from queryable_state.server.native_state.rows.spark_types import parse_struct
from queryable_state.server.native_state.rows.unsafe_row import unsafe_row_codec
from queryable_state.wire.errors import CorruptDataError

STRUCT = parse_struct('{"type":"struct","fields":[{"name":"value","type":"long","nullable":true}]}')
CODEC = unsafe_row_codec(STRUCT)


def row(number: int) -> bytes:
    return b"\x00" + CODEC.encode([number])


def reader(delimiter_bytes: int = 0, *, has_checksums: bool = False) -> UnsafeStoredRows:
    return UnsafeStoredRows(STRUCT, Framing(delimiter_bytes, has_checksums))


def all_columns(rows: UnsafeStoredRows, value: bytes) -> list[tuple[object, ...]]:
    return [rows.columns(each) for each in rows.rows(value)]


def sized(data: bytes) -> bytes:
    return struct.pack("<i", len(data)) + data


@pytest.mark.parametrize("delimiter", [b"", b","])
def test_several_rows_have_the_delimiter_of_the_store_between_them(delimiter: bytes) -> None:
    """Version 1 of Spark's merge operator puts a comma, version 2 nothing."""
    rows = reader(len(delimiter))
    value = delimiter.join(sized(row(number)) for number in (1, 2, 3))
    assert all_columns(rows, value) == [(1,), (2,), (3,)]
    assert all_columns(rows, b"") == []


def test_checksums_stand_in_front_of_rows() -> None:
    """Each row of several has a checksum and a size of what follows."""
    rows = reader(1, has_checksums=True)
    checksum = b"\xff" * 4
    assert rows.columns(rows.row(checksum + sized(row(7)))) == (7,)
    several = b",".join(checksum + sized(sized(row(number))) for number in (1, 2))
    assert all_columns(rows, several) == [(1,), (2,)]


@pytest.mark.parametrize("cut", [1, 3, 4, 10, 20])
def test_a_cut_value_is_damaged(cut: int) -> None:
    """No row of a value that ends too early is returned."""
    rows = reader()
    with pytest.raises(CorruptDataError):
        rows.rows(sized(row(1))[:cut])


@pytest.mark.parametrize("size", [0, -5, 1 << 30])
def test_a_wrong_size_of_a_row_is_damage(size: int) -> None:
    """A size that is no size never makes an endless loop."""
    rows = reader()
    with pytest.raises(CorruptDataError):
        rows.rows(struct.pack("<i", size) + row(1))


def test_another_version_of_a_row_is_refused() -> None:
    """A newer Spark may write another version byte."""
    rows = reader()
    with pytest.raises(CorruptDataError, match="version"):
        rows.row(b"\x01" + row(1)[1:])


def test_a_row_with_an_expiry_is_an_inner_row_and_a_time() -> None:
    """The inner row lies within the outer one; a place outside of it is damage."""
    outer = parse_struct(
        '{"type":"struct","fields":[{"name":"value","type":{"type":"struct","fields":'
        '[{"name":"value","type":"long","nullable":true}]},"nullable":true},'
        '{"name":"ttlExpirationMs","type":"long","nullable":true}]}'
    )
    rows = UnsafeStoredRows(outer, Framing())
    data = unsafe_row_codec(outer).encode([(5,), 99])
    assert rows.expiring(data) == (CODEC.encode([5]), 99)
    for damaged in (data[:16], data[:-8], b"\x01" + data[1:]):
        with pytest.raises(CorruptDataError):
            rows.expiring(damaged)
