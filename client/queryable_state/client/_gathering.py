"""What became of each of many keys, while it gathers."""

from __future__ import annotations

from itertools import repeat
from typing import TYPE_CHECKING, Any

from queryable_state.client._errors import ClientClosedError, afresh
from queryable_state.client._state import KvState, Reading
from queryable_state.client._waiters import Waiters, picked
from queryable_state.wire.errors import (
    AmbiguousJobError,
    AuthenticationError,
    DescriptorMismatchError,
    QueryableStateError,
    UnknownJobError,
    UnknownStateError,
)

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Iterable, Sequence

    from queryable_state.client._lane import Lane

Outcome = KvState | Reading | QueryableStateError
"""Of one key: its state; the reading that found none; why it could not be read."""

# These are of the call, not of a key.
_OF_THE_CALL = (
    AmbiguousJobError,
    AuthenticationError,
    ClientClosedError,
    DescriptorMismatchError,
    UnknownJobError,
    UnknownStateError,
)


class Gathering:
    """The outcomes of many keys, by position; `future` is done with the last of them."""

    __slots__ = ("_left", "future", "outcomes")

    def __init__(self, future: asyncio.Future[None], count: int) -> None:
        self.future = future
        self.outcomes: list[Outcome | None] = [None] * count
        self._left = count
        if not count:
            future.set_result(None)

    def put(self, position: int, outcome: Outcome) -> None:
        """Settles one key."""
        self.outcomes[position] = outcome
        self._left -= 1
        if not self._left and not self.future.done():
            self.future.set_result(None)

    def put_run(self, start: int, outcomes: Sequence[Outcome]) -> None:
        """Settles the keys from a position on."""
        self.outcomes[start : start + len(outcomes)] = outcomes
        self._left -= len(outcomes)
        if not self._left and not self.future.done():
            self.future.set_result(None)

    def whole(self) -> list[Outcome]:
        """All outcomes, once `future` is done."""
        return [known for known in self.outcomes if known is not None]

    def failures(self) -> Iterable[QueryableStateError]:
        """Why keys could not be read."""
        return (known for known in self.outcomes if isinstance(known, QueryableStateError))

    def versions(self) -> dict[int, int]:
        """The batch each key was read at, but those that failed."""
        return {
            position: known.info.version
            for position, known in enumerate(self.outcomes)
            if isinstance(known, KvState | Reading)
        }


class GatheringWaiters(Waiters):
    """The keys of a gathering, by their positions there."""

    __slots__ = ("_gathering", "_positions")

    def __init__(self, gathering: Gathering, positions: Sequence[int]) -> None:
        self._gathering = gathering
        self._positions = positions

    def found_all(
        self, answer: Callable[[bytes, Reading], Any], values: Iterable[bytes], reading: Reading
    ) -> None:
        positions = self._positions
        states = list(map(answer, values, repeat(reading)))
        if isinstance(positions, range):
            self._gathering.put_run(positions.start, states)
            return
        put = self._gathering.put
        for position, state in zip(positions, states, strict=True):
            put(position, state)

    def found(self, position: int, state: Any) -> None:
        self._gathering.put(self._positions[position], state)

    def missing(self, position: int, reading: Reading, error: Any) -> None:
        self._gathering.put(self._positions[position], reading)

    def fail(self, positions: Iterable[int], error: QueryableStateError) -> None:
        for position in positions:
            self._gathering.put(self._positions[position], error)

    def pick(self, positions: Sequence[int]) -> GatheringWaiters:
        return GatheringWaiters(self._gathering, picked(self._positions, positions))

    def __len__(self) -> int:
        return len(self._positions)


def gather(lane: Lane, keys: Sequence[Any], deadline: float | None = None) -> Gathering:
    """Asks for keys as the caller gave them; the outcomes gather.

    Without a deadline, together with what else is asked for in this turn of the loop.
    """
    gathering = Gathering(lane.new_future(), len(keys))
    encode = lane.encode
    encoded: list[Any] = []
    positions: Sequence[int] = range(len(keys))
    if encode is None:
        encoded = list(keys)
    else:
        refused = []
        for position, key in enumerate(keys):
            try:
                encoded.append(encode(key))
            except QueryableStateError as error:
                gathering.put(position, lane.key_error(error))
                refused.append(position)
        if refused:
            positions = [position for position in positions if position not in set(refused)]
    if encoded:
        lane.gather_all(encoded, GatheringWaiters(gathering, positions), deadline)
    return gathering


def raise_if_refused(lane: Lane, gathering: Gathering) -> None:
    """Raises what holds for the whole call, where there is such a refusal."""
    lane.check()
    for failure in gathering.failures():
        if isinstance(failure, _OF_THE_CALL):
            raise afresh(failure)
