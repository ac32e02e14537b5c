"""Pending results of the keys of a batch: one future for each key, or one for many."""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_right
from typing import TYPE_CHECKING, Any, ClassVar

from queryable_state.client._reading.elements import Presence
from queryable_state.wire.errors import UnknownKeyOrNamespaceError

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Iterable, Sequence

    from queryable_state.client._reading.states import DecodeContext
    from queryable_state.wire.errors import QueryableStateError


class PendingResults(ABC):
    """Receivers of the results of one batch, by position.

    A receiver that no longer waits (a cancelled await) is skipped.
    """

    each_alone: ClassVar[bool] = False
    """True if each receiver gets its result at once, without waiting for the last key."""

    @abstractmethod
    def found_all(self, states: list[Any]) -> None:
        """Delivers the values of all keys, in order."""

    @abstractmethod
    def found(self, position: int, state: Any) -> None:
        """Delivers the value of one key."""

    @abstractmethod
    def missing(self, position: int, context: DecodeContext, text: Callable[[], str]) -> None:
        """Delivers that one key has no value; `text` returns the error text of a lookup."""

    @abstractmethod
    def fail(self, positions: Iterable[int], error: QueryableStateError) -> None:
        """Delivers the error of some keys."""

    @abstractmethod
    def pick(self, positions: Sequence[int]) -> PendingResults:
        """Returns the receivers at some positions, as positions 0, 1, ... of a new batch."""

    @abstractmethod
    def __len__(self) -> int:
        """The number of keys."""

    def joined(self, others: PendingResults) -> PendingResults:
        """Returns the receivers of both batches, `others` last; may modify and return itself."""
        return JoinedResults([self, others])


class FutureResults(PendingResults):
    """One future for each key."""

    __slots__ = ("futures",)
    each_alone = True

    def __init__(self, futures: list[asyncio.Future[Any]]) -> None:
        self.futures = futures

    def found_all(self, states: list[Any]) -> None:
        for future, state in zip(self.futures, states, strict=True):
            if not future.done():
                future.set_result(state)

    def found(self, position: int, state: Any) -> None:
        future = self.futures[position]
        if not future.done():
            future.set_result(state)

    def missing(self, position: int, context: DecodeContext, text: Callable[[], str]) -> None:
        future = self.futures[position]
        if not future.done():
            future.set_exception(UnknownKeyOrNamespaceError.worded_later(text))

    def fail(self, positions: Iterable[int], error: QueryableStateError) -> None:
        for position in positions:
            future = self.futures[position]
            if not future.done():
                future.set_exception(error.copy())

    def pick(self, positions: Sequence[int]) -> FutureResults:
        return type(self)(list(map(self.futures.__getitem__, positions)))

    def __len__(self) -> int:
        return len(self.futures)

    def joined(self, others: PendingResults) -> PendingResults:
        if not isinstance(others, FutureResults):
            return super().joined(others)
        self.futures.extend(others.futures)
        return self


class PresenceResults(FutureResults):
    """One future of a `Presence` for each key; a missing key is a result, not an error."""

    __slots__ = ()

    def missing(self, position: int, context: DecodeContext, text: Callable[[], str]) -> None:
        self.found(position, Presence(None, context))


class JoinedResults(PendingResults):
    """Receivers of several calls whose keys follow each other in one batch."""

    __slots__ = ("_groups", "_starts")
    each_alone = True

    def __init__(self, groups: Iterable[PendingResults]) -> None:
        self._groups: list[PendingResults] = []
        # The first position of each group, and the end of the last one.
        self._starts = [0]
        for group in groups:
            self._groups.append(group)
            self._starts.append(self._starts[-1] + len(group))

    def found_all(self, states: list[Any]) -> None:
        for group, start, end in zip(self._groups, self._starts, self._starts[1:], strict=False):
            group.found_all(states[start:end])

    def found(self, position: int, state: Any) -> None:
        group, start = self._group(position)
        group.found(position - start, state)

    def missing(self, position: int, context: DecodeContext, text: Callable[[], str]) -> None:
        group, start = self._group(position)
        group.missing(position - start, context, text)

    def fail(self, positions: Iterable[int], error: QueryableStateError) -> None:
        for position in positions:
            group, start = self._group(position)
            group.fail((position - start,), error)

    def pick(self, positions: Sequence[int]) -> PendingResults:
        own: list[tuple[PendingResults, list[int]]] = []
        for position in positions:
            group, start = self._group(position)
            if not own or own[-1][0] is not group:
                own.append((group, []))
            own[-1][1].append(position - start)
        picks = [group.pick(within) for group, within in own]
        return picks[0] if len(picks) == 1 else JoinedResults(picks)

    def __len__(self) -> int:
        return self._starts[-1]

    def joined(self, others: PendingResults) -> JoinedResults:
        self._groups.append(others)
        self._starts.append(self._starts[-1] + len(others))
        return self

    def _group(self, position: int) -> tuple[PendingResults, int]:
        """Returns the group of a position, and the group's first position."""
        at = bisect_right(self._starts, position) - 1
        return self._groups[at], self._starts[at]


def picked(own: Sequence[int], positions: Sequence[int]) -> Sequence[int]:
    """Returns the items of `own` at some positions; a range if they are consecutive."""
    if isinstance(own, range) and positions:
        run = range(positions[0], positions[-1] + 1)
        if list(positions) == list(run):
            return own[run.start : run.stop]
    return [own[position] for position in positions]
