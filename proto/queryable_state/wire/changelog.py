"""Format of changelog files: the blocks and the seal of one batch of one subtask, as sent.

    magic "SQCL" | u16 format version | i64 batch id | u8 length | digest of the batch's offsets
    u32 CRC-32 of all that
    then frames: tag | u32 length | u32 CRC-32 of the bytes | bytes
    blocks are tagged "B"; the seal, tagged "S", is the last frame and ends the file

All numbers are little-endian. A file without its seal is a torn write, not an empty batch.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from google.protobuf.message import DecodeError

from queryable_state.wire.changes import BlockSums, Seal, read_block, record_count
from queryable_state.wire.errors import CorruptDataError, InvalidRequestError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from queryable_state.internal.v1 import changes_pb2

MAGIC = b"SQCL"
FORMAT_VERSION = 1

_HEAD = struct.Struct("<4sHqB")
_CRC = struct.Struct("<I")
_FRAME = struct.Struct("<cII")
_BLOCK = b"B"
_SEAL = b"S"


@dataclass(frozen=True, slots=True)
class Changelog:
    """The changes of one subtask in one batch."""

    batch_id: int
    offsets_digest: bytes
    """Digest of the batch's `offsets/<N>` file; empty: unknown."""
    blocks: tuple[changes_pb2.ChangeBlock, ...]
    seal: changes_pb2.Seal


def write_changelog(
    blocks: Iterable[bytes],
    seal: changes_pb2.Seal,
    *,
    batch_id: int,
    offsets_digest: bytes = b"",
) -> bytes:
    """The bytes of a changelog file. The digest has at most 255 bytes."""
    if len(offsets_digest) > 255:
        raise InvalidRequestError(
            f"an offsets digest of {len(offsets_digest)} bytes is too long: at most 255 fit"
        )
    head = _HEAD.pack(MAGIC, FORMAT_VERSION, batch_id, len(offsets_digest)) + offsets_digest
    parts = [head, _CRC.pack(zlib.crc32(head))]
    for block in blocks:
        parts += (_FRAME.pack(_BLOCK, len(block), zlib.crc32(block)), block)
    sealed = seal.SerializeToString()
    parts += (_FRAME.pack(_SEAL, len(sealed), zlib.crc32(sealed)), sealed)
    return b"".join(parts)


def read_changelog(data: bytes) -> Changelog:
    """Parses a changelog; raises CorruptDataError if it is incomplete or does not fit its seal."""
    if len(data) < _HEAD.size:
        raise CorruptDataError(f"a changelog of {len(data)} bytes ends within its header")
    magic, version, batch_id, digest_bytes = _HEAD.unpack_from(data)
    if magic != MAGIC or version != FORMAT_VERSION:
        raise CorruptDataError(
            f"not a changelog of format {FORMAT_VERSION}: it starts with {data[:6].hex()}"
        )
    head = data[: _HEAD.size + digest_bytes]
    start = _HEAD.size + digest_bytes + _CRC.size
    if data[len(head) : start] != _CRC.pack(zlib.crc32(head)):
        raise CorruptDataError("the header of a changelog is truncated or fails its checksum")
    blocks: list[changes_pb2.ChangeBlock] = []
    sums = BlockSums()
    for tag, content in _frames(data, start):
        if tag == _SEAL:
            seal = _seal(content)
            sums.verify(seal)
            return Changelog(batch_id, head[_HEAD.size :], tuple(blocks), seal)
        block = read_block(content)
        sums.add(content, record_count(block))
        blocks.append(block)
    raise CorruptDataError("a changelog ends without its seal")


def _frames(data: bytes, offset: int) -> Iterator[tuple[bytes, bytes]]:
    """The tags and contents of frames; raises CorruptDataError for bytes after the seal."""
    while offset < len(data):
        start = offset + _FRAME.size
        if start > len(data):
            raise CorruptDataError("a changelog ends within a frame's header")
        tag, length, checksum = _FRAME.unpack_from(data, offset)
        end = start + length
        if tag not in (_BLOCK, _SEAL) or end > len(data):
            raise CorruptDataError(f"a changelog has no complete frame at byte {offset}")
        content = data[start:end]
        if zlib.crc32(content) != checksum:
            raise CorruptDataError(f"the frame at byte {offset} of a changelog fails its checksum")
        if tag == _SEAL and end != len(data):
            raise CorruptDataError(f"{len(data) - end} bytes follow the seal of a changelog")
        yield tag, content
        offset = end


def _seal(content: bytes) -> changes_pb2.Seal:
    try:
        return Seal.FromString(content)
    except DecodeError as error:
        raise CorruptDataError(f"the seal of a changelog cannot be read: {error}") from None
