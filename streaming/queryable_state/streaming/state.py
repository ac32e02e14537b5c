"""Interfaces of the keyed states that a user function reads and writes.

A state belongs to the key of the element being processed. Later reads of the same task see a
write at once. Queries see the writes of a batch when the batch is committed: all or none.

**A read returns the decoded form of the stored bytes**, also in the batch that wrote them: a
write converts the value to its normal form. A tuple for a ROW reads as a `Row`, 0.1 in a FLOAT
as 0.10000000149011612, `True` in a LONG as 1, a tuple or set in a LIST as a list, a decimal
with the scale of its type, a datetime of a TIMESTAMP in UTC, a `bytearray` as `bytes`. A write
raises `SerializationError` if the type cannot hold the value.

**Lists, maps, pickled objects, and rows that contain one, are copies.** Each read returns a new
object, and the state keeps a copy of what is written. Changing such an object in place does not
change the state. Write it again to keep a change:

    entries = self.state.value()
    entries.append(1)
    self.state.update(entries)

**Null**, as in Flink: `ValueState.update(None)` clears the value. A map entry may have the value
None; the entry then exists. `add(None)` of a list, reducing or aggregating state raises
`SerializationError`, and so does a None in `add_all` or `update` of a list. (In Flink `add(null)`
of a reducing or aggregating state depends on the backend.)

**As Python collections.** A map and a list support `[]`, `in`, `del`, `len` and iteration. They are
true if they are not empty. As in PyFlink `state[map_key]` is None if the map has no such entry, and
`del state[map_key]` of no entry does nothing.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Generic, TypeVar, overload

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

T = TypeVar("T")
K = TypeVar("K")
V = TypeVar("V")
IN = TypeVar("IN")
OUT = TypeVar("OUT")


class State(ABC):
    """A state of the current key."""

    @abstractmethod
    def clear(self) -> None:
        """Removes the state of the current key."""


class ValueState(State, Generic[T]):
    """One value per key."""

    @abstractmethod
    def value(self) -> T | None:
        """The value; None if there is none."""

    @abstractmethod
    def update(self, value: T | None) -> None:
        """Replaces the value; None clears it."""


class AppendingState(State, Generic[IN, OUT]):
    """A state to which elements are added, one by one."""

    @abstractmethod
    def get(self) -> OUT:
        """What the added elements make."""

    @abstractmethod
    def add(self, value: IN) -> None:
        """Adds one element; raises SerializationError if it is None."""


class MergingState(AppendingState[IN, OUT]):
    """An appending state of which two can be merged into one: the state of all their elements."""


class ListState(MergingState[T, "list[T]"], Generic[T]):
    """A list per key, in the order of the `add` calls.

    `add` and `add_all` do not read the state. Setting or deleting a position writes the whole list
    again.
    """

    @abstractmethod
    def get(self) -> list[T]:
        """The elements as a new list; empty if there are none."""

    @abstractmethod
    def add(self, value: T) -> None:
        """Appends one element; raises SerializationError if it is None."""

    @abstractmethod
    def add_all(self, values: Iterable[T]) -> None:
        """Appends elements: all, or none if one is invalid."""

    @abstractmethod
    def update(self, values: Iterable[T]) -> None:
        """Replaces all elements; an empty iterable clears the list."""

    @abstractmethod
    def is_empty(self) -> bool:
        """True if there is no element."""

    @abstractmethod
    def __len__(self) -> int: ...

    def __bool__(self) -> bool:
        return not self.is_empty()

    def __iter__(self) -> Iterator[T]:
        return iter(self.get())

    def __contains__(self, value: object) -> bool:
        return value in self.get()

    @overload
    def __getitem__(self, position: int) -> T: ...

    @overload
    def __getitem__(self, position: slice) -> list[T]: ...

    def __getitem__(self, position: int | slice) -> T | list[T]:
        return self.get()[position]

    @overload
    def __setitem__(self, position: int, value: T) -> None: ...

    @overload
    def __setitem__(self, position: slice, value: Iterable[T]) -> None: ...

    def __setitem__(self, position: int | slice, value: T | Iterable[T]) -> None:
        elements = self.get()
        elements[position] = value  # type: ignore[index, assignment] # the overloads fit together
        self.update(elements)

    def __delitem__(self, position: int | slice) -> None:
        elements = self.get()
        del elements[position]
        self.update(elements)


class MapReads(State, Generic[K, V]):
    """The reads of a map. Iteration is in the order of encoded map keys."""

    @abstractmethod
    def get(self, key: K) -> V | None:
        """The value of an entry; None if the entry does not exist or its value is None."""

    @abstractmethod
    def contains(self, key: K) -> bool:
        """True if the entry exists, also if its value is None."""

    @abstractmethod
    def items(self) -> list[tuple[K, V | None]]:
        """All entries as a new list."""

    @abstractmethod
    def keys(self) -> list[K]:
        """The keys of all entries as a new list."""

    @abstractmethod
    def values(self) -> list[V | None]:
        """The values of all entries as a new list."""

    @abstractmethod
    def is_empty(self) -> bool:
        """True if there is no entry."""

    def __len__(self) -> int:
        return len(self.keys())

    def __bool__(self) -> bool:
        return not self.is_empty()

    def __iter__(self) -> Iterator[K]:
        return iter(self.keys())

    def __contains__(self, key: K) -> bool:
        return self.contains(key)

    def __getitem__(self, key: K) -> V | None:
        return self.get(key)


class MapState(MapReads[K, V]):
    """A map per key, one record per entry. Iteration is in the order of encoded map keys.

    Reading one entry of a large map does not fetch the others. `items`, `keys`, `values`, `len` and
    iteration fetch the whole map. They return new lists: the map may be changed meanwhile.
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

    def __setitem__(self, key: K, value: V | None) -> None:
        self.put(key, value)

    def __delitem__(self, key: K) -> None:
        self.remove(key)


class ReducingState(MergingState[T, "T | None"], Generic[T]):
    """One value per key, the reduction of all added values."""

    @abstractmethod
    def get(self) -> T | None:
        """The reduced value; None if no value was added."""

    @abstractmethod
    def add(self, value: T) -> None:
        """Reduces a value into the state; raises SerializationError if it is None."""


class AggregatingState(MergingState[IN, "OUT | None"], Generic[IN, OUT]):
    """One accumulator per key, and the result that is computed from it."""

    @abstractmethod
    def get(self) -> OUT | None:
        """The result of the accumulator; None if no value was added."""

    @abstractmethod
    def add(self, value: IN) -> None:
        """Adds a value to the accumulator; raises SerializationError if it is None."""
