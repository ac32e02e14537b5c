"""Outcomes of the keys of one multi-key call."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from queryable_state.client._reading.pending_results import PendingResults, picked
from queryable_state.client._reading.states import DecodeContext, KvState
from queryable_state.wire.errors import QueryableStateError

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Iterable, Sequence


Outcome = KvState | DecodeContext | QueryableStateError
"""Outcome of one key: its state, the context of a read that found nothing, or its error."""


class Outcomes(ABC):
    """Outcomes by position; complete once every key has one."""

    __slots__ = ("_left", "by_position")

    def __init__(self, count: int) -> None:
        self.by_position: list[Any] = [None] * count
        self._left = count

    def put(self, position: int, outcome: Any) -> None:
        """Stores the outcome of one key."""
        self.by_position[position] = outcome
        self._left -= 1
        if not self._left:
            self._complete()

    def put_run(self, start: int, outcomes: Sequence[Any]) -> None:
        """Stores the outcomes of consecutive keys."""
        self.by_position[start : start + len(outcomes)] = outcomes
        self._left -= len(outcomes)
        if not self._left:
            self._complete()

    @abstractmethod
    def missing(self, position: int, context: DecodeContext) -> None:
        """Handles a key without a value."""

    @abstractmethod
    def fail(self, position: int, error: QueryableStateError) -> None:
        """Handles a key that cannot be read."""

    @abstractmethod
    def _complete(self) -> None:
        """Called once every key has an outcome."""


class OutcomeResults(PendingResults):
    """Results of a batch that go into the outcomes of a call, at `positions`."""

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


class StateOutcomes(Outcomes):
    """States of a call that fails with its first failed key; None for a key without a value."""

    __slots__ = ("future",)

    def __init__(self, future: asyncio.Future[list[KvState | None]], count: int) -> None:
        super().__init__(count)
        self.future = future

    def missing(self, position: int, context: DecodeContext) -> None:
        self.put(position, None)

    def fail(self, position: int, error: QueryableStateError) -> None:
        """Fails the whole call."""
        if not self.future.done():
            self.future.set_exception(error.copy())

    def _complete(self) -> None:
        if not self.future.done():
            self.future.set_result(self.by_position)


class KeyOutcomes(Outcomes):
    """Outcomes of a call in which each key may fail alone; `future` is done with the last key."""

    __slots__ = ("future",)
    by_position: list[Outcome | None]

    def __init__(self, future: asyncio.Future[None], count: int) -> None:
        super().__init__(count)
        self.future = future
        if not count:
            future.set_result(None)

    def missing(self, position: int, context: DecodeContext) -> None:
        self.put(position, context)

    def fail(self, position: int, error: QueryableStateError) -> None:
        self.put(position, error)

    def _complete(self) -> None:
        if not self.future.done():
            self.future.set_result(None)

    def all(self) -> list[Outcome]:
        """Returns all outcomes; call it once `future` is done."""
        return [known for known in self.by_position if known is not None]

    def failures(self) -> Iterable[QueryableStateError]:
        """Returns the errors of the keys that failed."""
        return (known for known in self.by_position if isinstance(known, QueryableStateError))

    def versions(self) -> dict[int, int]:
        """Returns the batch at which each key was read; failed keys are left out."""
        return {
            position: known.info.version
            for position, known in enumerate(self.by_position)
            if isinstance(known, KvState | DecodeContext)
        }
