"""The block stream of lz4-java, Spark's codec `lz4`.

A block is the magic `LZ4Block`, a token (method and level), three little-endian numbers
(compressed bytes, original bytes, 28 bits of the XXH32 of the original bytes), and the data. An
empty block ends a stream; several streams may follow each other.
"""

from __future__ import annotations

from struct import Struct

import cramjam
from xxhash import xxh32_intdigest

from queryable_state.server.native_state.files.outcomes import checksum_mismatch, damaged

MAGIC = b"LZ4Block"

_HEADER = Struct("<8sBiiI")
_SEED = 0x9747B28C
_CHECKSUM_BITS = 0x0FFFFFFF
_METHOD_BITS = 0xF0
_LEVEL_BITS = 0x0F
_RAW = 0x10
_LZ4 = 0x20
# A block of level L has at most 2**(10 + L) bytes.
_LEVEL_BASE = 10


def decompress(data: bytes, file: str) -> bytes:
    """The original bytes; raises CorruptDataError for any other bytes than lz4-java writes."""
    parts: list[bytes] = []
    position, size = 0, len(data)
    ended = False
    while position < size:
        if size - position < _HEADER.size:
            raise damaged(file, f"it ends within the header of the LZ4 block at byte {position}")
        magic, token, packed, original, checksum = _HEADER.unpack_from(data, position)
        begin = position + _HEADER.size
        position = begin + packed
        where = f"the LZ4 block at byte {begin - _HEADER.size}"
        limit = 1 << (_LEVEL_BASE + (token & _LEVEL_BITS))
        if magic != MAGIC or not 0 <= original <= limit or packed < 0:
            raise damaged(file, f"{where} has an invalid header")
        if original == 0:
            if packed or checksum:
                raise damaged(file, f"{where} has an invalid header")
            ended = True
            continue
        if position > size:
            raise damaged(file, f"it ends within {where}")
        ended = False
        part = _original(token, data[begin:position], original, file, where)
        if xxh32_intdigest(part, _SEED) & _CHECKSUM_BITS != checksum:
            raise checksum_mismatch(file, f"{where} does not have its checksum")
        parts.append(part)
    if not ended:
        raise damaged(file, "it ends without the empty LZ4 block of a complete stream")
    return b"".join(parts)


def _original(token: int, packed: bytes, size: int, file: str, where: str) -> bytes:
    method = token & _METHOD_BITS
    if method == _RAW and len(packed) == size:
        return packed
    if method != _LZ4:
        raise damaged(file, f"{where} has an unknown method or size")
    try:
        part = bytes(cramjam.lz4.decompress_block(packed, output_len=size))
    except cramjam.DecompressionError as problem:
        raise damaged(file, f"{where} cannot be decompressed ({problem})") from problem
    if len(part) != size:
        raise damaged(file, f"{where} has {len(part)} bytes instead of {size}")
    return part
