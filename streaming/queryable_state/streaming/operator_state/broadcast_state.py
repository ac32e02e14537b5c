"""Interfaces of broadcast state: a map of the operator that is equal on all its subtasks."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, TypeVar

from queryable_state.streaming.state import MapReads

if TYPE_CHECKING:
    from collections.abc import Mapping

K = TypeVar("K")
V = TypeVar("V")


class ReadOnlyBroadcastState(MapReads[K, V]):
    """A broadcast state as `process_element` sees it.

    Reads return the decoded form of the stored bytes, as those of keyed states do. Iteration is in
    the order of encoded map keys, the same on all subtasks.
    """

    def immutable_entries(self) -> list[tuple[K, V | None]]:
        """The same as `items`."""
        return self.items()


class BroadcastState(ReadOnlyBroadcastState[K, V]):
    """A broadcast state as `process_broadcast_element` sees it.

    Every subtask gets every broadcast element. The function must write the same entries on all of
    them: the state must depend on the broadcast elements alone.
    """

    @abstractmethod
    def put(self, key: K, value: V | None) -> None:
        """Writes one entry; None is a valid value."""

    @abstractmethod
    def put_all(self, dict_value: Mapping[K, V | None]) -> None:
        """Writes entries: all, or none if one is invalid."""

    @abstractmethod
    def remove(self, key: K) -> None:
        """Removes one entry if it exists."""

    def entries(self) -> list[tuple[K, V | None]]:
        """The same as `items`."""
        return self.items()

    def __setitem__(self, key: K, value: V | None) -> None:
        self.put(key, value)

    def __delitem__(self, key: K) -> None:
        self.remove(key)
