"""The keyed states a user function reads and writes.

A state belongs to the key of the element being processed. Writes are seen by
later reads of the same task at once; they become visible outside when the batch
is committed, all of them or none.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

T = TypeVar("T")
K = TypeVar("K")
V = TypeVar("V")
IN = TypeVar("IN")
OUT = TypeVar("OUT")


class State(ABC):
    """A state of the current key."""

    @abstractmethod
    def clear(self) -> None:
        """Remove what is stored under the current key."""


class ValueState(State, Generic[T]):
    """One value a key."""

    @abstractmethod
    def value(self) -> T | None:
        """The value; None where there is none."""

    @abstractmethod
    def update(self, value: T | None) -> None:
        """Replace the value; None clears it."""


class ListState(State, Generic[T]):
    """Elements in the order they were added. Adding reads nothing."""

    @abstractmethod
    def get(self) -> list[T]:
        """The elements; a new list, empty where there is none."""

    @abstractmethod
    def add(self, value: T) -> None:
        """Append one element."""

    @abstractmethod
    def add_all(self, values: Iterable[T]) -> None:
        """Append elements."""

    @abstractmethod
    def update(self, values: Iterable[T]) -> None:
        """Replace all elements."""


class MapState(State, Generic[K, V]):
    """Entries, one record each. The order of iteration is that of the encoded map keys."""

    @abstractmethod
    def get(self, key: K) -> V | None:
        """The value of an entry; None where there is no such entry."""

    @abstractmethod
    def put(self, key: K, value: V) -> None:
        """Write one entry."""

    @abstractmethod
    def put_all(self, entries: Mapping[K, V]) -> None:
        """Write entries."""

    @abstractmethod
    def remove(self, key: K) -> None:
        """Remove one entry, if it is there."""

    @abstractmethod
    def contains(self, key: K) -> bool:
        """Whether there is such an entry."""

    @abstractmethod
    def items(self) -> list[tuple[K, V]]:
        """All entries; a new list."""

    @abstractmethod
    def keys(self) -> list[K]:
        """Keys of all entries; a new list."""

    @abstractmethod
    def values(self) -> list[V]:
        """Values of all entries; a new list."""

    @abstractmethod
    def is_empty(self) -> bool:
        """Whether there is no entry."""

    def __contains__(self, key: K) -> bool:
        return self.contains(key)


class ReducingState(State, Generic[T]):
    """One value a key, into which added values are reduced."""

    @abstractmethod
    def get(self) -> T | None:
        """The value; None where nothing was added."""

    @abstractmethod
    def add(self, value: T) -> None:
        """Reduce a value into the state."""


class AggregatingState(State, Generic[IN, OUT]):
    """One accumulator a key, from which a result is read."""

    @abstractmethod
    def get(self) -> OUT | None:
        """The result of the accumulator; None where nothing was added."""

    @abstractmethod
    def add(self, value: IN) -> None:
        """Add a value to the accumulator."""
