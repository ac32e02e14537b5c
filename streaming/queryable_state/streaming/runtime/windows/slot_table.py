"""Interface of the tables that number the slots of states: by key, or by key and window."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence


class SlotTable(Protocol):
    """The slots of some states of a task, numbered from 0. A slot keeps its number."""

    @property
    def chunk_slots(self) -> Sequence[int]:
        """Distinct slots of the newest chunk: a state that is read is fetched for all of them."""
        ...

    def __len__(self) -> int: ...

    def prefix(self, slot: int) -> bytes:
        """Wire key and namespace of a slot: the store key without the element."""
        ...

    def prefixes(self, slots: Sequence[int]) -> list[bytes]:
        """The prefix of each of these slots."""
        ...

    def shown(self, slot: int) -> str:
        """The key, and the window if there is one, for error texts."""
        ...
