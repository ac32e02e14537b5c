"""The answer of `get_kv_states` while it gathers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from queryable_state.client._errors import afresh
from queryable_state.client._waiters import Waiters

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
        put = self._collection.put
        for position, value in zip(self._positions, values, strict=True):
            put(position, answer(value, reading))

    def found(self, position: int, state: Any) -> None:
        self._collection.put(self._positions[position], state)

    def missing(self, position: int, reading: Reading, error: Any) -> None:
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
