"""Snapshots as sorted records: the format of heap checkpoints and of every savepoint.

    magic "SQCS" | u16 format version
    blocks:  u32 state id | u32 records | u32 bytes of the keys | u32 bytes of the values
             u32 CRC-32 of the block without this field
             a u32 each: lengths of the keys, then of the values; the keys, the values
    index:   per block: u64 offset | u32 state id | u32 records | u16 first, u16 last key group
    footer:  u64 offset of the index | u32 blocks | u32 CRC-32 of the index and these two | "SQCE"

All numbers are little-endian. Every state's keys are strictly ascending over its blocks, which
stand together, so that a range of key groups is a few blocks of the file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path
    from types import TracebackType

FORMAT_VERSION = 1
FILE_NAME = "state"

Records = list[tuple[bytes, bytes]]


class CanonicalWriter:
    """Writes one file, on any one thread. What is written counts once `close` returned.

    Used as a context, an exception leaves no file behind.
    """

    def __init__(self, local: Path) -> None:
        raise NotImplementedError

    @property
    def size_bytes(self) -> int:
        """Bytes written so far."""
        raise NotImplementedError

    def add(self, state_id: int, records: Iterable[tuple[bytes, bytes]]) -> int:
        """Writes all records of a state, whose keys ascend; returns how many there were.

        Once for a state. InvalidRequestError for keys out of order or a state that was added.
        """
        raise NotImplementedError

    def close(self) -> None:
        """Writes index and footer. Idempotent."""
        raise NotImplementedError

    def discard(self) -> None:
        """Ends writing and removes the file. Idempotent."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if exc is None:
            self.close()
        else:
            self.discard()


def read_canonical(
    local: Path, first_key_group: int = 0, last_key_group: int = 0xFFFF
) -> Iterator[tuple[int, Records]]:
    """The records of these key groups, in blocks of one state each, in the file's order.

    CorruptDataError, naming the file, for what is not whole or not of the format; blocks of
    other key groups are not looked at.
    """
    raise NotImplementedError
