"""One state a client asks for: where it is, its codecs, and the queries on their way."""

from __future__ import annotations

from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from queryable_state.client._routing.key_batcher import KeyBatcher
from queryable_state.wire.state_codecs import StateCodecs

if TYPE_CHECKING:
    import asyncio

    from queryable_state.client._connection.batch import Batch
    from queryable_state.client._routing.dispatcher import Dispatcher
    from queryable_state.client._routing.key_batcher import QueryOptions
    from queryable_state.wire.located_state import LocatedState


class StateHandle:
    """A state by the names the caller uses; once located, with all it takes to ask for keys."""

    def __init__(self, job: str, state_name: str, *, unpickle: bool) -> None:
        self.job = job
        self.state_name = state_name
        self.located: LocatedState | None = None
        self.codecs: StateCodecs | None = None
        self.parked: list[Batch] = []
        """Batches that wait until the state is located."""
        self.locating: asyncio.Task[None] | None = None
        self._unpickle = unpickle
        # A lane lives as long as somebody asks through it: time outs and windows without end
        # must not add up.
        self._batchers: WeakValueDictionary[QueryOptions, KeyBatcher] = WeakValueDictionary()

    def batcher(self, dispatcher: Dispatcher, options: QueryOptions) -> KeyBatcher:
        """The lane of these options."""
        batcher = self._batchers.get(options)
        if batcher is None:
            batcher = self._batchers[options] = KeyBatcher(dispatcher, self, options)
        return batcher

    def batchers(self) -> tuple[KeyBatcher, ...]:
        """All lanes there are."""
        return tuple(self._batchers.values())

    def place(self, located: LocatedState) -> None:
        """Takes a placement that is not older than the known one.

        What the lanes have gathered is sent first, as it was encoded by the
        codecs there were.
        """
        for batcher in self.batchers():
            batcher.flush()
        before = self.located
        if before is None or before.registration != located.registration:
            self.codecs = StateCodecs(located.registration, unpickle=self._unpickle)
        self.located = located
        for batcher in self.batchers():
            batcher.adopt()

    def describe(self) -> str:
        """The state for error texts."""
        if self.located is not None:
            return self.located.describe()
        return f"state {self.state_name!r}" + (f" of job {self.job!r}" if self.job else "")
