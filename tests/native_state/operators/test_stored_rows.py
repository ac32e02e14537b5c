"""Raw values: one row, several with and without delimiters and checksums, and damaged ones."""

from __future__ import annotations

import struct

import pytest

from queryable_state.server.native_state.operators.stored_rows import StoredRows
from queryable_state.server.native_state.rows.spark_types import parse_struct
from queryable_state.server.native_state.rows.unsafe_row import unsafe_row_codec
from queryable_state.wire.errors import CorruptDataError

CODEC = unsafe_row_codec(
    parse_struct('{"type":"struct","fields":[{"name":"value","type":"long","nullable":true}]}')
)


def row(number: int) -> bytes:
    return b"\x00" + CODEC.encode([number])


def sized(data: bytes) -> bytes:
    return struct.pack("<i", len(data)) + data


@pytest.mark.parametrize("delimiter", [b"", b","])
def test_several_rows_have_the_delimiter_of_the_store_between_them(delimiter: bytes) -> None:
    """Version 1 of Spark's merge operator puts a comma, version 2 nothing."""
    rows = StoredRows(CODEC, delimiter_bytes=len(delimiter), has_checksums=False)
    value = delimiter.join(sized(row(number)) for number in (1, 2, 3))
    assert rows.decode_all(value) == [(1,), (2,), (3,)]
    assert rows.decode_all(b"") == []


def test_checksums_stand_in_front_of_rows() -> None:
    """Each row of several has a checksum and a size of what follows."""
    rows = StoredRows(CODEC, delimiter_bytes=1, has_checksums=True)
    checksum = b"\xff" * 4
    assert rows.decode(checksum + sized(row(7))) == (7,)
    several = b",".join(checksum + sized(sized(row(number))) for number in (1, 2))
    assert rows.decode_all(several) == [(1,), (2,)]


@pytest.mark.parametrize("cut", [1, 3, 4, 10, 20])
def test_a_cut_value_is_damaged(cut: int) -> None:
    """No row of a value that ends too early is returned."""
    rows = StoredRows(CODEC, delimiter_bytes=0, has_checksums=False)
    with pytest.raises(CorruptDataError):
        rows.decode_all(sized(row(1))[:cut])


@pytest.mark.parametrize("size", [0, -5, 1 << 30])
def test_a_wrong_size_of_a_row_is_damage(size: int) -> None:
    """A size that is no size never makes an endless loop."""
    rows = StoredRows(CODEC, delimiter_bytes=0, has_checksums=False)
    with pytest.raises(CorruptDataError):
        rows.decode_all(struct.pack("<i", size) + row(1))


def test_another_version_of_a_row_is_refused() -> None:
    """A newer Spark may write another version byte."""
    rows = StoredRows(CODEC, delimiter_bytes=0, has_checksums=False)
    with pytest.raises(CorruptDataError, match="version"):
        rows.decode(b"\x01" + row(1)[1:])
