"""Checksum files of Hadoop and Spark beside the files of a checkpoint."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.native_state.files.spark_writers import hadoop_checksums, spark_checksum

from queryable_state.server.checkpoint.file_systems.local_storage import LocalStorage
from queryable_state.server.checkpoint.file_systems.storage import MissingFileError
from queryable_state.server.native_state.files.checked_reads import CheckedReads
from queryable_state.server.native_state.files.checksums import hadoop_mismatch, spark_mismatch
from queryable_state.wire.errors import CorruptDataError, Reason

if TYPE_CHECKING:
    from pathlib import Path

DATA = bytes(range(256)) * 7


@settings(max_examples=60)
@given(data=st.binary(max_size=3000))
def test_the_checksums_of_a_file_agree_with_it(data: bytes) -> None:
    assert hadoop_mismatch(data, hadoop_checksums(data)) == ""
    assert spark_mismatch(data, spark_checksum(data)) == ""


@settings(max_examples=50)
@given(data=st.binary(min_size=1, max_size=2000), at=st.floats(0, 1, exclude_max=True))
def test_a_flipped_or_missing_byte_is_found(data: bytes, at: float) -> None:
    flipped = bytearray(data)
    flipped[int(at * len(data))] ^= 0x40
    for other in (bytes(flipped), data[:-1], data + b"x"):
        assert hadoop_mismatch(other, hadoop_checksums(data))
        assert spark_mismatch(other, spark_checksum(data))


@pytest.mark.parametrize("sums", [b"", b"crc", b"xyz\0\0\0\2\0", b"crc\0\0\0\0\0"])
def test_a_broken_checksum_file_is_damage(sums: bytes) -> None:
    assert "checksum file" in hadoop_mismatch(DATA, sums)
    assert "checksum file" in spark_mismatch(DATA, sums)


def test_an_unknown_algorithm_leaves_only_the_size_to_check() -> None:
    sums = json.dumps({"algorithm": "SHA9", "value": 1, "mainFileSize": len(DATA)}).encode()
    assert spark_mismatch(DATA, sums) == ""
    assert spark_mismatch(DATA[1:], sums)


def test_a_mismatch_is_damage_that_names_the_file(tmp_path: Path) -> None:
    (tmp_path / "7.delta").write_bytes(DATA)
    (tmp_path / ".7.delta.crc").write_bytes(hadoop_checksums(DATA[::-1]))
    pauses: list[float] = []
    reads = CheckedReads(LocalStorage(), str(tmp_path), pause=pauses.append)
    with pytest.raises(CorruptDataError, match=r"7\.delta is damaged") as raised:
        reads.read("7.delta")
    assert raised.value.reason == Reason.CHECKSUM_MISMATCH
    assert pauses


def test_a_file_whose_checksums_are_being_replaced_is_read_again(tmp_path: Path) -> None:
    """Spark renames the file first and its checksums afterwards."""
    (tmp_path / "7.delta").write_bytes(DATA)
    sums = tmp_path / "7.delta.crc"
    sums.write_bytes(spark_checksum(b"before"))

    def replaced(_: float) -> None:
        sums.write_bytes(spark_checksum(DATA))

    assert CheckedReads(LocalStorage(), str(tmp_path), pause=replaced).read("7.delta") == DATA


def test_files_without_checksums_are_read(tmp_path: Path) -> None:
    (tmp_path / "7.delta").write_bytes(DATA)
    reads = CheckedReads(LocalStorage(), str(tmp_path))
    assert reads.read("7.delta") == DATA
    with pytest.raises(MissingFileError):
        reads.read("8.delta")
