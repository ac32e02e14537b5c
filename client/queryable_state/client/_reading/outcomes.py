"""What each of many keys of one call gives, while it gathers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from queryable_state.client._reading.pending_results import PendingResults, picked

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Iterable, Sequence

    from queryable_state.client._reading.decode_context import DecodeContext
    from queryable_state.client._reading.states import KvState
    from queryable_state.wire.errors import QueryableStateError


class Outcomes(ABC):
    """The outcomes of keys by position; complete with the last of them."""

    __slots__ = ("_left", "outcomes")

    def __init__(self, count: int) -> None:
        self.outcomes: list[Any] = [None] * count
        self._left = count

    def put(self, position: int, outcome: Any) -> None:
        """Settles one key."""
        self.outcomes[position] = outcome
        self._left -= 1
        if not self._left:
            self._complete()

    def put_run(self, start: int, outcomes: Sequence[Any]) -> None:
        """Settles the keys from a position on."""
        self.outcomes[start : start + len(outcomes)] = outcomes
        self._left -= len(outcomes)
        if not self._left:
            self._complete()

    @abstractmethod
    def missing(self, position: int, context: DecodeContext) -> None:
        """One key has no value."""

    @abstractmethod
    def fail(self, position: int, error: QueryableStateError) -> None:
        """One key cannot be read."""

    @abstractmethod
    def _complete(self) -> None:
        """Every key is settled."""


class OutcomeResults(PendingResults):
    """The keys of a call, by their positions among its outcomes."""

    __slots__ = ("_outcomes", "_positions")

    def __init__(self, outcomes: Outcomes, positions: Sequence[int]) -> None:
        self._outcomes = outcomes
        self._positions = positions

    def found_all(self, states: list[Any]) -> None:
        positions = self._positions
        if isinstance(positions, range):
            self._outcomes.put_run(positions.start, states)
            return
        put = self._outcomes.put
        for position, state in zip(positions, states, strict=True):
            put(position, state)

    def found(self, position: int, state: Any) -> None:
        self._outcomes.put(self._positions[position], state)

    def missing(self, position: int, context: DecodeContext, text: Callable[[], str]) -> None:
        self._outcomes.missing(self._positions[position], context)

    def fail(self, positions: Iterable[int], error: QueryableStateError) -> None:
        for position in positions:
            self._outcomes.fail(self._positions[position], error)

    def pick(self, positions: Sequence[int]) -> OutcomeResults:
        return OutcomeResults(self._outcomes, picked(self._positions, positions))

    def __len__(self) -> int:
        return len(self._positions)


class Collection(Outcomes):
    """The states of many keys: done with the last key, or the first failure."""

    __slots__ = ("future",)

    def __init__(self, future: asyncio.Future[list[KvState | None]], count: int) -> None:
        super().__init__(count)
        self.future = future

    def missing(self, position: int, context: DecodeContext) -> None:
        self.put(position, None)

    def fail(self, position: int, error: QueryableStateError) -> None:
        """One key that cannot be read fails the whole call."""
        if not self.future.done():
            self.future.set_exception(error.copy())

    def _complete(self) -> None:
        if not self.future.done():
            self.future.set_result(self.outcomes)
