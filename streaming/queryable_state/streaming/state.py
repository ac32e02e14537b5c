"""The keyed states a user function reads and writes.

A state belongs to the key of the element being processed. Writes are seen by
later reads of the same task at once; they become visible outside when the batch
is committed, all of them or none.

**A read gives what the stored bytes give**, also in the batch that wrote them: a value takes
its normal form when it is written. A tuple for a ROW reads as a `Row`, 0.1 in a FLOAT as
0.10000000149011612, `True` in a LONG as 1, a tuple or set in a LIST as a list, a decimal
with the scale of its type, a datetime of a TIMESTAMP in UTC, a `bytearray` as `bytes`. A value
that its type cannot hold is refused by the call that writes it (`SerializationError`).

**A list, map, pickled object, or row with one of these, is the function's own** when it was read,
and stays so when it was written: each read makes a new object, and changing it in place changes
nothing that is stored. Write it again to keep a change:

    entries = self.state.value()
    entries.append(1)
    self.state.update(entries)

**Null**, as in Flink: `ValueState.update(None)` clears; the value of a map entry may be None, and
the entry is there all the same; `add(None)` of a list, reducing or aggregating state is refused
(`SerializationError`), and so is a None among the elements of `add_all` and `update` of a list.
What `add(null)` of a reducing or aggregating state does depends in Flink on the backend.
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
        """Append one element; None is refused."""

    @abstractmethod
    def add_all(self, values: Iterable[T]) -> None:
        """Append elements: all of them, or none where one is refused."""

    @abstractmethod
    def update(self, values: Iterable[T]) -> None:
        """Replace all elements; without any, the same as `clear`."""


class MapState(State, Generic[K, V]):
    """Entries, one record each. The order of iteration is that of the encoded map keys."""

    @abstractmethod
    def get(self, key: K) -> V | None:
        """The value of an entry; None if there is no such entry, or its value is None."""

    @abstractmethod
    def put(self, key: K, value: V | None) -> None:
        """Write one entry; None is a value."""

    @abstractmethod
    def put_all(self, entries: Mapping[K, V | None]) -> None:
        """Write entries: all of them, or none where one is refused."""

    @abstractmethod
    def remove(self, key: K) -> None:
        """Remove one entry, if it is there."""

    @abstractmethod
    def contains(self, key: K) -> bool:
        """Whether there is such an entry, also one whose value is None."""

    @abstractmethod
    def items(self) -> list[tuple[K, V | None]]:
        """All entries; a new list."""

    @abstractmethod
    def keys(self) -> list[K]:
        """Keys of all entries; a new list."""

    @abstractmethod
    def values(self) -> list[V | None]:
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
        """Reduce a value into the state; None is refused."""


class AggregatingState(State, Generic[IN, OUT]):
    """One accumulator a key, from which a result is read."""

    @abstractmethod
    def get(self) -> OUT | None:
        """The result of the accumulator; None where nothing was added."""

    @abstractmethod
    def add(self, value: IN) -> None:
        """Add a value to the accumulator; None is refused."""
