"""The stream of snappy-java's SnappyOutputStream, Spark's codec `snappy`.

A header (magic, version, oldest compatible version) and blocks of a big-endian size and raw
snappy data. Several streams may follow each other. The format has no end mark and no checksums.
"""

from __future__ import annotations

from struct import Struct

import cramjam

from queryable_state.server.native_state.files.outcomes import UnsupportedFormatError, damaged

MAGIC = b"\x82SNAPPY\x00"

_VERSIONS = Struct(">ii")
_SIZE = Struct(">i")
_READABLE_VERSION = 1


def decompress(data: bytes, file: str) -> bytes:
    """The original bytes; raises CorruptDataError if they cannot be decompressed."""
    parts: list[bytes] = []
    position, size = 0, len(data)
    while position < size:
        if data.startswith(MAGIC, position):
            position = _behind_header(data, position + len(MAGIC), file)
            continue
        if size - position < _SIZE.size:
            raise damaged(file, "it ends within the size of a snappy block")
        (packed,) = _SIZE.unpack_from(data, position)
        begin = position + _SIZE.size
        position = begin + packed
        if packed < 0 or position > size:
            raise damaged(file, f"the snappy block at byte {begin} has an invalid size {packed}")
        try:
            parts.append(bytes(cramjam.snappy.decompress_raw(data[begin:position])))
        except cramjam.DecompressionError as problem:
            raise damaged(
                file, f"the snappy block at byte {begin} cannot be decompressed ({problem})"
            ) from problem
    return b"".join(parts)


def _behind_header(data: bytes, position: int, file: str) -> int:
    end = position + _VERSIONS.size
    if end > len(data):
        raise damaged(file, "it ends within the header of a snappy stream")
    _, compatible = _VERSIONS.unpack_from(data, position)
    if compatible > _READABLE_VERSION:
        raise UnsupportedFormatError(
            f"{file} needs version {compatible} of snappy-java's stream, {_READABLE_VERSION} is "
            "known: update this library"
        )
    return end
