"""Who waits for the keys of a batch: a future each, or one for many."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from queryable_state.client._errors import afresh

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Iterable, Sequence

    from queryable_state.client._state import KvState, Reading
    from queryable_state.wire.errors import QueryableStateError


class Waiters(ABC):
    """Those who wait for the keys of one batch, by position.

    Who waits no longer (a cancelled await) is passed over.
    """

    @abstractmethod
    def found_all(
        self, state_type: type[KvState], values: Iterable[bytes], reading: Reading
    ) -> None:
        """Every key has a value, in order."""

    @abstractmethod
    def found(self, position: int, state: KvState) -> None:
        """One key has a value."""

    @abstractmethod
    def missing(self, position: int, error: Callable[[], QueryableStateError]) -> None:
        """One key has none; `error` makes what a single query raises then."""

    @abstractmethod
    def fail(self, positions: Iterable[int], error: QueryableStateError) -> None:
        """Some keys could not be read."""

    @abstractmethod
    def pick(self, positions: Sequence[int]) -> Waiters:
        """Those at some positions, as the positions 0, 1, ... of a new batch."""

    @abstractmethod
    def join(self, others: Waiters) -> bool:
        """Puts others of the same kind behind these; False where they cannot be."""


class FutureWaiters(Waiters):
    """One future a key."""

    __slots__ = ("futures",)

    def __init__(self, futures: list[asyncio.Future[KvState]]) -> None:
        self.futures = futures

    def found_all(
        self, state_type: type[KvState], values: Iterable[bytes], reading: Reading
    ) -> None:
        for future, value in zip(self.futures, values, strict=True):
            if not future.done():
                future.set_result(state_type(value, reading))

    def found(self, position: int, state: KvState) -> None:
        future = self.futures[position]
        if not future.done():
            future.set_result(state)

    def missing(self, position: int, error: Callable[[], QueryableStateError]) -> None:
        future = self.futures[position]
        if not future.done():
            future.set_exception(error())

    def fail(self, positions: Iterable[int], error: QueryableStateError) -> None:
        for position in positions:
            future = self.futures[position]
            if not future.done():
                future.set_exception(afresh(error))

    def pick(self, positions: Sequence[int]) -> FutureWaiters:
        futures = self.futures
        return FutureWaiters([futures[position] for position in positions])

    def join(self, others: Waiters) -> bool:
        if not isinstance(others, FutureWaiters):
            return False
        self.futures.extend(others.futures)
        return True


class Collection:
    """The answer of a multi-get while it gathers: done with the last key, or the first failure."""

    __slots__ = ("_left", "_states", "future")

    def __init__(self, future: asyncio.Future[list[KvState | None]], count: int) -> None:
        self.future = future
        self._states: list[KvState | None] = [None] * count
        self._left = count

    def put(self, position: int, state: KvState | None) -> None:
        """Settles one key; None: it has no value."""
        self._states[position] = state
        self._left -= 1
        if not self._left and not self.future.done():
            self.future.set_result(self._states)

    def fail(self, error: QueryableStateError) -> None:
        """One key that cannot be read fails the whole call."""
        if not self.future.done():
            self.future.set_exception(afresh(error))


class CollectionWaiters(Waiters):
    """The keys of a multi-get, by their positions there."""

    __slots__ = ("_collection", "_positions")

    def __init__(self, collection: Collection, positions: Sequence[int]) -> None:
        self._collection = collection
        self._positions = positions

    def found_all(
        self, state_type: type[KvState], values: Iterable[bytes], reading: Reading
    ) -> None:
        put = self._collection.put
        for position, value in zip(self._positions, values, strict=True):
            put(position, state_type(value, reading))

    def found(self, position: int, state: KvState) -> None:
        self._collection.put(self._positions[position], state)

    def missing(self, position: int, error: Any) -> None:
        self._collection.put(self._positions[position], None)

    def fail(self, positions: Iterable[int], error: QueryableStateError) -> None:
        for _ in positions:
            self._collection.fail(error)
            break

    def pick(self, positions: Sequence[int]) -> CollectionWaiters:
        own = self._positions
        return CollectionWaiters(self._collection, [own[position] for position in positions])

    def join(self, others: Waiters) -> bool:
        return False
