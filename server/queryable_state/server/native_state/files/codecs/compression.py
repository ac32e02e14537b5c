"""Decompression of state files of every codec of Spark.

The first bytes name the codec, so a codec that was changed over a restart needs no setting
(`spark.sql.streaming.stateStore.compression.codec`).
"""

from __future__ import annotations

import cramjam

from queryable_state.server.native_state.files.codecs import (
    lz4_blocks,
    lzf_chunks,
    snappy_blocks,
)
from queryable_state.server.native_state.files.outcomes import UnsupportedFormatError, damaged

_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
_LONGEST_MAGIC = 8


def decompress(data: bytes, file: str) -> bytes:
    """The original bytes of a file.

    Raises CorruptDataError if the bytes are damaged or end early, UnsupportedFormatError for a
    codec other than lz4, zstd, snappy and lzf.
    """
    if data.startswith(lz4_blocks.MAGIC):
        return lz4_blocks.decompress(data, file)
    if data.startswith(_ZSTD_MAGIC):
        return _zstd(data, file)
    if data.startswith(snappy_blocks.MAGIC):
        return snappy_blocks.decompress(data, file)
    if data.startswith(lzf_chunks.MAGIC):
        return lzf_chunks.decompress(data, file)
    if len(data) < _LONGEST_MAGIC:
        raise damaged(file, f"it has only {len(data)} bytes")
    raise UnsupportedFormatError(
        f"{file} starts with the bytes {data[:_LONGEST_MAGIC].hex()}, which no known codec writes: "
        "lz4, zstd, snappy and lzf are readable; the file is damaged, or the query sets "
        "spark.sql.streaming.stateStore.compression.codec to another codec"
    )


def _zstd(data: bytes, file: str) -> bytes:
    try:
        return bytes(cramjam.zstd.decompress(data))
    except cramjam.DecompressionError as problem:
        raise damaged(file, f"its zstd data cannot be decompressed ({problem})") from problem
