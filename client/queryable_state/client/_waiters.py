"""Who waits for the keys of a batch: a future each, or one for many."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

from queryable_state.client._elements import Presence
from queryable_state.client._errors import afresh

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Iterable, Sequence

    from queryable_state.client._state import Reading
    from queryable_state.wire.errors import QueryableStateError


class Waiters(ABC):
    """Those who wait for the keys of one batch, by position.

    Who waits no longer (a cancelled await) is passed over.
    """

    each_alone: ClassVar[bool] = False
    """Whether each goes on with its own answer, and not with that of the last key."""

    @abstractmethod
    def found_all(
        self, answer: Callable[[bytes, Reading], Any], values: Iterable[bytes], reading: Reading
    ) -> None:
        """Every key has a value, in order; `answer` makes what the caller gets of it."""

    @abstractmethod
    def found(self, position: int, state: Any) -> None:
        """One key has a value."""

    @abstractmethod
    def missing(
        self, position: int, reading: Reading, error: Callable[[], QueryableStateError]
    ) -> None:
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
    each_alone = True

    def __init__(self, futures: list[asyncio.Future[Any]]) -> None:
        self.futures = futures

    def found_all(
        self, answer: Callable[[bytes, Reading], Any], values: Iterable[bytes], reading: Reading
    ) -> None:
        for future, value in zip(self.futures, values, strict=True):
            if not future.done():
                future.set_result(answer(value, reading))

    def found(self, position: int, state: Any) -> None:
        future = self.futures[position]
        if not future.done():
            future.set_result(state)

    def missing(
        self, position: int, reading: Reading, error: Callable[[], QueryableStateError]
    ) -> None:
        future = self.futures[position]
        if not future.done():
            future.set_exception(error())

    def fail(self, positions: Iterable[int], error: QueryableStateError) -> None:
        for position in positions:
            future = self.futures[position]
            if not future.done():
                future.set_exception(afresh(error))

    def pick(self, positions: Sequence[int]) -> FutureWaiters:
        return type(self)(list(map(self.futures.__getitem__, positions)))

    def join(self, others: Waiters) -> bool:
        if not isinstance(others, FutureWaiters):
            return False
        self.futures.extend(others.futures)
        return True


class PresenceWaiters(FutureWaiters):
    """One future a key, of whether there is something; that there is nothing is an answer."""

    __slots__ = ()

    def missing(
        self, position: int, reading: Reading, error: Callable[[], QueryableStateError]
    ) -> None:
        self.found(position, Presence(None, reading))
