"""What became of each of many keys, while it gathers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from queryable_state.client._errors import ClientClosedError
from queryable_state.client._reading.decode_context import DecodeContext
from queryable_state.client._reading.outcomes import OutcomeResults, Outcomes
from queryable_state.client._reading.states import KvState
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
    from collections.abc import Iterable, Sequence

    from queryable_state.client._routing.key_batcher import KeyBatcher

Outcome = KvState | DecodeContext | QueryableStateError
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


class Gathering(Outcomes):
    """The outcomes of many keys, by position; `future` is done with the last of them."""

    __slots__ = ("future",)
    outcomes: list[Outcome | None]

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
            if isinstance(known, KvState | DecodeContext)
        }


def gather(batcher: KeyBatcher, keys: Sequence[Any], deadline: float | None = None) -> Gathering:
    """Asks for keys as the caller gave them; the outcomes gather.

    Without a deadline, together with what else is asked for in this turn of the loop.
    """
    gathering = Gathering(batcher.new_future(), len(keys))
    positions: Sequence[int] = range(len(keys))
    try:
        encoded = list(keys) if batcher.encode_all is None else batcher.encode_all(keys)
    except QueryableStateError:
        encoded, positions = _encodable(batcher, keys, gathering)
    if encoded:
        batcher.gather_all(encoded, OutcomeResults(gathering, positions), deadline)
    return gathering


def _encodable(
    batcher: KeyBatcher, keys: Sequence[Any], gathering: Gathering
) -> tuple[list[Any], Sequence[int]]:
    """The wire keys of those that can be asked for, and their positions; the others fail."""
    encode = batcher.encode
    assert encode is not None
    encoded, positions = [], []
    for position, key in enumerate(keys):
        try:
            encoded.append(encode(key))
            positions.append(position)
        except QueryableStateError as error:
            gathering.fail(position, batcher.key_error(error))
    return encoded, positions


def raise_if_refused(batcher: KeyBatcher, gathering: Gathering) -> None:
    """Raises what holds for the whole call, where there is such a refusal."""
    batcher.check()
    for failure in gathering.failures():
        if isinstance(failure, _OF_THE_CALL):
            raise failure.copy()
