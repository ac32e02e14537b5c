"""The answer of `get_kv_states` while it gathers."""

from __future__ import annotations

from itertools import repeat
from typing import TYPE_CHECKING, Any

from queryable_state.client._errors import afresh
from queryable_state.client._waiters import Waiters, picked

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Iterable, Sequence

    from queryable_state.client._state import KvState, Reading
    from queryable_state.wire.errors import QueryableStateError


class Collection:
    """The states of many keys: done with the last key, or the first failure."""

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

    def put_run(self, start: int, states: Sequence[KvState]) -> None:
        """Settles the keys from a position on; all of them have a value."""
        self._states[start : start + len(states)] = states
        self._left -= len(states)
        if not self._left and not self.future.done():
            self.future.set_result(self._states)

    def fail(self, error: QueryableStateError) -> None:
        """One key that cannot be read fails the whole call."""
        if not self.future.done():
            self.future.set_exception(afresh(error))


class CollectionWaiters(Waiters):
    """The keys of a collection, by their positions there."""

    __slots__ = ("_collection", "_positions")

    def __init__(self, collection: Collection, positions: Sequence[int]) -> None:
        self._collection = collection
        self._positions = positions

    def found_all(
        self, answer: Callable[[bytes, Reading], Any], values: Iterable[bytes], reading: Reading
    ) -> None:
        positions = self._positions
        states = list(map(answer, values, repeat(reading)))
        if isinstance(positions, range):
            self._collection.put_run(positions.start, states)
            return
        put = self._collection.put
        for position, state in zip(positions, states, strict=True):
            put(position, state)

    def found(self, position: int, state: Any) -> None:
        self._collection.put(self._positions[position], state)

    def missing(self, position: int, reading: Reading, error: Any) -> None:
        self._collection.put(self._positions[position], None)

    def fail(self, positions: Iterable[int], error: QueryableStateError) -> None:
        for _ in positions:
            self._collection.fail(error)
            break

    def pick(self, positions: Sequence[int]) -> CollectionWaiters:
        return CollectionWaiters(self._collection, picked(self._positions, positions))

    def __len__(self) -> int:
        return len(self._positions)
