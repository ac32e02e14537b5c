"""Read access to the records of one state in a backend."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


class RecordSource(ABC):
    """The records of one state beneath all overlays."""

    @abstractmethod
    def reader(self) -> Callable[[bytes], bytes | None]:
        """A function from a key to its value, None if it has none."""

    @abstractmethod
    def multi_get(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """Returns values aligned with `keys`."""

    @abstractmethod
    def chunk(self, start: bytes, end: bytes | None, limit: int) -> list[tuple[bytes, bytes]]:
        """Returns the first `limit` records with start <= key < end, in order."""
