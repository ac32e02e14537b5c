"""Every codec of Spark's state files is read back, and damage is never taken for data."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.native_state.files.damage import FILE, suppress_named
from tests.native_state.files.spark_writers import CODECS

from queryable_state.server.native_state.files.codecs.compression import decompress
from queryable_state.server.native_state.files.outcomes import UnsupportedFormatError
from queryable_state.wire.errors import CorruptDataError

_texts = st.one_of(
    st.binary(min_size=1, max_size=2500),
    st.builds(
        lambda unit, times: unit * times, st.binary(min_size=1, max_size=9), st.integers(1, 400)
    ),
)


@pytest.mark.parametrize("codec", CODECS)
@settings(max_examples=50)
@given(data=_texts)
def test_what_spark_compressed_is_read_back(codec: str, data: bytes) -> None:
    assert decompress(CODECS[codec](data), FILE) == data


@pytest.mark.parametrize("codec", ["lz4", "snappy", "lzf"])
@settings(max_examples=50)
@given(first=_texts, second=_texts)
def test_streams_that_follow_each_other_are_one_file(
    codec: str, first: bytes, second: bytes
) -> None:
    """Spark's shuffles concatenate streams, and so may a file system that appends."""
    write = CODECS[codec]
    assert decompress(write(first) + write(second), FILE) == first + second


@pytest.mark.parametrize("codec", CODECS)
@settings(max_examples=50)
@given(data=_texts, at=st.floats(0, 1, exclude_max=True), bit=st.integers(0, 7))
def test_a_flipped_bit_is_an_error_that_names_the_file(
    codec: str, data: bytes, at: float, bit: int
) -> None:
    """Only lz4 has checksums; the others may give other bytes, but no other exception."""
    packed = bytearray(CODECS[codec](data))
    packed[int(at * len(packed))] ^= 1 << bit
    with suppress_named():
        read = decompress(bytes(packed), FILE)
        assert codec != "lz4" or read == data


@pytest.mark.parametrize("codec", ["lz4", "zstd"])
@settings(max_examples=50)
@given(data=_texts, kept=st.floats(0, 1, exclude_max=True))
def test_a_file_that_is_cut_off_is_damaged(codec: str, data: bytes, kept: float) -> None:
    packed = CODECS[codec](data)
    with pytest.raises(CorruptDataError, match=r"7\.changelog"):
        decompress(packed[: max(9, int(kept * len(packed)))] if kept else packed[:9], FILE)


@pytest.mark.parametrize("data", [b"", b"LZ4", b"\x28\xb5"])
def test_a_file_of_a_few_bytes_is_damaged(data: bytes) -> None:
    with pytest.raises(CorruptDataError, match=r"7\.changelog"):
        decompress(data, FILE)


def test_an_unknown_codec_is_refused_by_its_first_bytes() -> None:
    with pytest.raises(UnsupportedFormatError, match="1f8b0800"):
        decompress(bytes.fromhex("1f8b080000000000") + bytes(20), FILE)
