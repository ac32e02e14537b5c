"""Canonical snapshot format: sorted records, for heap checkpoints and every savepoint.

    magic "SQCS" | u16 format version
    blocks:  u32 state id | u32 records | u32 bytes of the keys | u32 bytes of the values
             u32 CRC-32 of the block without this field
             a u32 each: lengths of the keys, then of the values; the keys, the values
    index:   per block: u64 offset | u32 state id | u32 records | u16 first, u16 last key group
    footer:  u64 offset of the index | u32 blocks | u32 CRC-32 of the index and these two | "SQCE"

All numbers are little-endian. The blocks of one state are adjacent and its keys strictly
ascend over them, so that a range of key groups is a few blocks of the file.
"""

from __future__ import annotations

import struct
import zlib
from bisect import bisect_left
from itertools import accumulate, islice, pairwise
from operator import lt
from typing import TYPE_CHECKING, NamedTuple, Self

from queryable_state.wire.errors import CorruptDataError, InvalidRequestError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path
    from types import TracebackType
    from typing import BinaryIO

MAGIC = b"SQCS"
END_MAGIC = b"SQCE"
FORMAT_VERSION = 1
FILE_NAME = "state"

Records = list[tuple[bytes, bytes]]

_HEAD = struct.Struct("<4sH")
_BLOCK = struct.Struct("<IIII")
_CRC = struct.Struct("<I")
_INDEX = struct.Struct("<QIIHH")
_FOOTER = struct.Struct("<QI")
_TAIL_BYTES = _FOOTER.size + _CRC.size + len(END_MAGIC)

_BLOCK_RECORDS = 1024
# A larger block is split in half.
_BLOCK_BYTES = 1 << 20
_KEY_GROUP_BYTES = 2


class _Block(NamedTuple):
    offset: int
    state_id: int
    records: int
    first_key_group: int
    last_key_group: int


class CanonicalWriter:
    """Writer of one file, for any one thread. The file is complete once `close` has returned.

    As a context manager it removes the file after an exception. It does not translate OSError.
    """

    def __init__(self, local: Path) -> None:
        self._local = local
        self._file: BinaryIO | None = local.open("xb")
        self._offset = self._file.write(_HEAD.pack(MAGIC, FORMAT_VERSION))
        self._index: list[_Block] = []
        self._state_ids: set[int] = set()

    @property
    def size_bytes(self) -> int:
        """Bytes written so far."""
        return self._offset

    def add(self, state_id: int, records: Iterable[tuple[bytes, bytes]]) -> int:
        """Writes all records of a state, in ascending key order; returns their number.

        Raises InvalidRequestError for keys out of order and for a state added before.
        """
        if state_id in self._state_ids:
            raise InvalidRequestError(f"state {state_id} is in this snapshot already")
        self._state_ids.add(state_id)
        remaining = iter(records)
        last_key = b""
        count = 0
        while chunk := list(islice(remaining, _BLOCK_RECORDS)):
            keys = [key for key, _ in chunk]
            if not (last_key < keys[0] and all(map(lt, keys, islice(keys, 1, None)))):
                raise InvalidRequestError(f"the keys of state {state_id} do not ascend")
            if min(map(len, keys)) < _KEY_GROUP_BYTES:
                raise InvalidRequestError(f"a key of state {state_id} has no key group")
            last_key = keys[-1]
            count += len(chunk)
            self._add_block(state_id, keys, [value for _, value in chunk])
        return count

    def close(self) -> None:
        """Writes index and footer. Idempotent."""
        if self._file is None:
            return
        index = b"".join(_INDEX.pack(*block) for block in self._index)
        footer = _FOOTER.pack(self._offset, len(self._index))
        crc = _CRC.pack(zlib.crc32(footer, zlib.crc32(index)))
        self._write(index + footer + crc + END_MAGIC)
        file, self._file = self._file, None
        file.close()

    def discard(self) -> None:
        """Closes and removes an incomplete file. Idempotent."""
        file, self._file = self._file, None
        if file is not None:
            try:
                file.close()
            finally:
                self._local.unlink(missing_ok=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            if exc is None:
                self.close()
        finally:
            self.discard()

    def _add_block(self, state_id: int, keys: Sequence[bytes], values: Sequence[bytes]) -> None:
        key_lengths, value_lengths = [*map(len, keys)], [*map(len, values)]
        key_bytes, value_bytes = sum(key_lengths), sum(value_lengths)
        count = len(keys)
        if key_bytes + value_bytes > _BLOCK_BYTES and count > 1:
            half = count // 2
            self._add_block(state_id, keys[:half], values[:half])
            self._add_block(state_id, keys[half:], values[half:])
            return
        head = _BLOCK.pack(state_id, count, key_bytes, value_bytes)
        lengths = struct.pack(f"<{2 * count}I", *key_lengths, *value_lengths)
        body = b"".join((lengths, *keys, *values))
        self._index.append(
            _Block(self._offset, state_id, count, _key_group(keys[0]), _key_group(keys[-1]))
        )
        self._write(head + _CRC.pack(zlib.crc32(body, zlib.crc32(head))))
        self._write(body)

    def _write(self, data: bytes) -> None:
        if self._file is None:
            raise InvalidRequestError(f"{self._local} is closed: nothing can be added to it")
        self._file.write(data)
        self._offset += len(data)


def read_canonical(
    local: Path, first_key_group: int = 0, last_key_group: int = 0xFFFF
) -> Iterator[tuple[int, Records]]:
    """The records of these key groups, in blocks of one state each, in the file's order.

    Raises CorruptDataError, with the file's name, for a damaged file; it does not read blocks
    of other key groups. It does not translate OSError.
    """
    with local.open("rb") as file:
        for block, end in _read_index(file, local):
            if block.first_key_group > last_key_group or block.last_key_group < first_key_group:
                continue
            keys, values = _read_block(file, block, end, local)
            low, high = 0, len(keys)
            if block.first_key_group < first_key_group:
                low = bisect_left(keys, first_key_group.to_bytes(_KEY_GROUP_BYTES, "big"))
            if block.last_key_group > last_key_group:
                high = bisect_left(keys, (last_key_group + 1).to_bytes(_KEY_GROUP_BYTES, "big"))
            if low < high:
                yield block.state_id, list(zip(keys[low:high], values[low:high], strict=True))


def _read_index(file: BinaryIO, local: Path) -> list[tuple[_Block, int]]:
    """The blocks and their ends; they fill the file between its header and its index."""
    file_bytes = file.seek(0, 2)
    file.seek(0)
    head = file.read(_HEAD.size)
    if head[:4] != MAGIC:
        raise CorruptDataError(f"{local} is no snapshot: it starts with {head[:4].hex()!r}")
    if head != _HEAD.pack(MAGIC, FORMAT_VERSION):
        raise CorruptDataError(
            f"the snapshot {local} has format version {int.from_bytes(head[4:], 'little')}; this "
            f"software reads {FORMAT_VERSION}"
        )
    if file_bytes < _HEAD.size + _TAIL_BYTES:
        raise CorruptDataError(f"the snapshot {local} is truncated after {file_bytes} bytes")
    file.seek(file_bytes - _TAIL_BYTES)
    tail = file.read(_TAIL_BYTES)
    footer, crc = tail[: _FOOTER.size], tail[_FOOTER.size : -len(END_MAGIC)]
    offset, count = _FOOTER.unpack(footer)
    if tail[-len(END_MAGIC) :] != END_MAGIC:
        raise CorruptDataError(f"the snapshot {local} is truncated: it has no footer")
    if offset + count * _INDEX.size + _TAIL_BYTES != file_bytes:
        raise CorruptDataError(f"the index of the snapshot {local} does not fit its size")
    file.seek(offset)
    data = file.read(count * _INDEX.size)
    if _CRC.pack(zlib.crc32(footer, zlib.crc32(data))) != crc:
        raise CorruptDataError(f"the index of the snapshot {local} fails its checksum")
    blocks = [_Block(*fields) for fields in _INDEX.iter_unpack(data)]
    bounds = [*(block.offset for block in blocks), offset]
    if bounds[0] != _HEAD.size or any(
        end - start < _BLOCK.size + _CRC.size for start, end in pairwise(bounds)
    ):
        raise CorruptDataError(f"the index of the snapshot {local} has invalid block offsets")
    return list(zip(blocks, bounds[1:], strict=True))


def _read_block(
    file: BinaryIO, block: _Block, end: int, local: Path
) -> tuple[list[bytes], list[bytes]]:
    """Keys and values of a block that ends at `end`."""
    file.seek(block.offset)
    data = file.read(end - block.offset)
    where = f"the block at byte {block.offset} of the snapshot {local}"
    state_id, count, key_bytes, value_bytes = _BLOCK.unpack_from(data)
    start = _BLOCK.size + _CRC.size
    if (
        len(data) != start + 2 * 4 * count + key_bytes + value_bytes
        or (state_id, count) != (block.state_id, block.records)
        or not count
    ):
        raise CorruptDataError(f"{where} does not match the index")
    body = data[start:]
    if data[_BLOCK.size : start] != _CRC.pack(zlib.crc32(body, zlib.crc32(data[: _BLOCK.size]))):
        raise CorruptDataError(f"{where} fails its checksum")
    lengths = struct.unpack_from(f"<{2 * count}I", body)
    keys, keys_end = _split(body, 2 * 4 * count, lengths[:count])
    values, values_end = _split(body, keys_end, lengths[count:])
    if (keys_end, values_end) != (len(body) - value_bytes, len(body)):
        raise CorruptDataError(f"{where} has lengths that do not add up to its size")
    if (
        min(map(len, keys)) < _KEY_GROUP_BYTES
        or (_key_group(keys[0]), _key_group(keys[-1])) != block[3:]
        or not all(map(lt, keys, islice(keys, 1, None)))
    ):
        raise CorruptDataError(f"{where} has keys that do not match the index")
    return keys, values


def _split(data: bytes, start: int, lengths: Sequence[int]) -> tuple[list[bytes], int]:
    """Adjacent pieces of these lengths and the offset of their end."""
    offsets = list(accumulate(lengths, initial=start))
    return [data[low:high] for low, high in pairwise(offsets)], offsets[-1]


def _key_group(key: bytes) -> int:
    return int.from_bytes(key[:_KEY_GROUP_BYTES], "big")
