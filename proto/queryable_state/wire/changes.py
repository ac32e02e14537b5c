"""Change blocks: the changes of a batch as tasks send, servers stage and changelogs store them."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

from google.protobuf.message import DecodeError

from queryable_state.internal.v1 import changes_pb2
from queryable_state.wire.errors import CorruptDataError, Reason

if TYPE_CHECKING:
    from collections.abc import Sequence

ChangeBlock = changes_pb2.ChangeBlock
Seal = changes_pb2.Seal
Token = changes_pb2.Token

FORMAT_VERSION = 1
MAX_BLOCK_BYTES = 1 << 20

_ALL_BITS = (1 << 64) - 1

# Overhead of a block's own fields, and of a record: a tag and a length of up to five bytes.
_BLOCK_OVERHEAD = 16
_RECORD_OVERHEAD = 6
# Key group, at least one byte of key, at least one of namespace.
_SHORTEST_KEY = 4


def record_count(block: changes_pb2.ChangeBlock) -> int:
    """Records of a block, as a seal counts them."""
    return (
        len(block.cleared_prefixes)
        + len(block.deleted_keys)
        + len(block.put_keys)
        + len(block.operator_states)
    )


class BlockSums:
    """Running count and checksum of a batch's blocks, over all its states, in their order.

    The sender builds the seal from them; the receiver compares the seal with its own.
    """

    __slots__ = ("checksum", "record_count")

    def __init__(self) -> None:
        self.checksum = 0
        """CRC-32 of the block bytes so far."""
        self.record_count = 0

    def add(self, data: bytes, records: int) -> None:
        """Adds the next block: its bytes and its number of records."""
        self.checksum = zlib.crc32(data, self.checksum)
        self.record_count += records

    def seal(
        self, token: changes_pb2.Token, *, fingerprint: int = 0, row_count: int = 0
    ) -> changes_pb2.Seal:
        """The seal of the blocks counted. The fingerprint is taken modulo 2**64."""
        return Seal(
            record_count=self.record_count,
            checksum=self.checksum,
            token=token,
            fingerprint=fingerprint & _ALL_BITS,
            row_count=row_count,
        )

    def verify(self, seal: changes_pb2.Seal) -> None:
        """Raises CorruptDataError (CHECKSUM_MISMATCH) if the seal does not match."""
        if (seal.record_count, seal.checksum) != (self.record_count, self.checksum):
            raise CorruptDataError(
                f"the seal has {seal.record_count} records with checksum {seal.checksum:#010x}, "
                f"but the blocks have {self.record_count} with {self.checksum:#010x}: "
                "send the batch again",
                reason=Reason.CHECKSUM_MISMATCH,
            )


class ChangeBlockBuilder:
    """Splits the changes of one state into blocks of at most 1 MiB.

    Changes apply in the order of the calls. A block holds clears, deletes and puts in that
    order, so a call out of order starts a new block: call clears first, then deletes, then
    puts. `take()` returns the full blocks, to be sent while the rest is built, `finish()` the
    last ones; both are already added to `sums`, which the states of one batch share.
    """

    def __init__(
        self, state_id: int, sums: BlockSums | None = None, *, max_bytes: int = MAX_BLOCK_BYTES
    ) -> None:
        self.sums = BlockSums() if sums is None else sums
        self._state_id = state_id
        self._max_bytes = max_bytes
        self._full: list[bytes] = []
        self._start()

    def _start(self) -> None:
        self._block = ChangeBlock(format_version=FORMAT_VERSION, state_id=self._state_id)
        self._bytes = _BLOCK_OVERHEAD
        self._has_deletes = self._has_puts = False

    def _room_for(self, size: int) -> None:
        if self._bytes + size > self._max_bytes:
            self._end_block()
        self._bytes += size

    def _end_block(self) -> None:
        records = record_count(self._block)
        if records:
            data = self._block.SerializeToString()
            self.sums.add(data, records)
            self._full.append(data)
        self._start()

    def clear_prefix(self, prefix: bytes) -> None:
        """Removes every record under a store key prefix."""
        if self._has_deletes or self._has_puts:
            self._end_block()
        self._room_for(len(prefix) + _RECORD_OVERHEAD)
        self._block.cleared_prefixes.append(prefix)

    def delete(self, key: bytes) -> None:
        """Removes one record."""
        if self._has_puts:
            self._end_block()
        self._room_for(len(key) + _RECORD_OVERHEAD)
        self._has_deletes = True
        self._block.deleted_keys.append(key)

    def delete_all(self, keys: Sequence[bytes]) -> None:
        """Removes many records."""
        if self._has_puts:
            self._end_block()
        size = sum(map(len, keys)) + _RECORD_OVERHEAD * len(keys)
        if self._bytes + size <= self._max_bytes:
            self._bytes += size
            self._has_deletes = self._has_deletes or bool(keys)
            self._block.deleted_keys.extend(keys)
        elif len(keys) == 1:
            self.delete(keys[0])
        else:
            half = len(keys) // 2
            self.delete_all(keys[:half])
            self.delete_all(keys[half:])

    def put(self, key: bytes, value: bytes) -> None:
        """Writes one record."""
        self._room_for(len(key) + len(value) + 2 * _RECORD_OVERHEAD)
        self._has_puts = True
        self._block.put_keys.append(key)
        self._block.put_values.append(value)

    def put_all(self, keys: Sequence[bytes], values: Sequence[bytes]) -> None:
        """Writes many records; `keys` and `values` are aligned."""
        size = sum(map(len, keys)) + sum(map(len, values)) + 2 * _RECORD_OVERHEAD * len(keys)
        if self._bytes + size <= self._max_bytes:
            self._bytes += size
            self._has_puts = self._has_puts or bool(keys)
            self._block.put_keys.extend(keys)
            self._block.put_values.extend(values)
        elif len(keys) == 1:
            self.put(keys[0], values[0])
        else:
            half = len(keys) // 2
            self.put_all(keys[:half], values[:half])
            self.put_all(keys[half:], values[half:])

    def operator_state(self, elements: Sequence[bytes]) -> None:
        """Replaces this subtask's list of operator state."""
        self._room_for(sum(map(len, elements)) + _RECORD_OVERHEAD * (len(elements) + 1))
        self._has_puts = True
        self._block.operator_states.append(changes_pb2.OperatorStateChange(elements=elements))

    def take(self) -> list[bytes]:
        """Removes and returns the full blocks, in order."""
        full, self._full = self._full, []
        return full

    def finish(self) -> list[bytes]:
        """Removes and returns all blocks; the builder is empty afterwards."""
        self._end_block()
        return self.take()


def read_block(data: bytes) -> changes_pb2.ChangeBlock:
    """Parses and checks a block; raises CorruptDataError if it cannot be applied."""
    try:
        block = ChangeBlock.FromString(data)
    except DecodeError as error:
        raise CorruptDataError(f"{len(data)} bytes are not a change block: {error}") from None
    if block.format_version != FORMAT_VERSION:
        raise CorruptDataError(
            f"a change block has format version {block.format_version}; this software reads "
            f"{FORMAT_VERSION}"
        )
    if len(block.put_keys) != len(block.put_values):
        raise CorruptDataError(
            f"a change block has {len(block.put_keys)} keys and {len(block.put_values)} values"
        )
    for keys in (block.cleared_prefixes, block.deleted_keys, block.put_keys):
        if keys and min(map(len, keys)) < _SHORTEST_KEY:
            raise CorruptDataError(
                f"a change block has a key of less than {_SHORTEST_KEY} bytes, too short for "
                "key group, key and namespace"
            )
    return block
