"""One state a client asks for: where it is, its codecs, and the queries on their way."""

from __future__ import annotations

from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from queryable_state.client._routing.key_batcher import Lane
from queryable_state.wire.values.records import StateCodecs

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
        self.relocating: asyncio.Task[LocatedState] | None = None
        self._unpickle = unpickle
        # A lane lives as long as somebody asks through it: time outs and windows without end
        # must not add up.
        self._lanes: WeakValueDictionary[QueryOptions, Lane] = WeakValueDictionary()

    def lane(self, dispatcher: Dispatcher, options: QueryOptions) -> Lane:
        """The lane of these options."""
        lane = self._lanes.get(options)
        if lane is None:
            lane = self._lanes[options] = Lane(dispatcher, self, options)
        return lane

    def lanes(self) -> tuple[Lane, ...]:
        """All lanes there are."""
        return tuple(self._lanes.values())

    def place(self, located: LocatedState) -> None:
        """Takes a placement that is not older than the known one.

        What the lanes have gathered is sent first, as it was encoded by the
        codecs there were.
        """
        for lane in self.lanes():
            lane.flush()
        before = self.located
        if before is None or before.registration != located.registration:
            self.codecs = StateCodecs(located.registration, unpickle=self._unpickle)
        self.located = located
        for lane in self.lanes():
            lane.adopt()

    def relocated(self, task: asyncio.Task[LocatedState]) -> None:
        """Ends `relocating`; who waited for it sees to the outcome."""
        self.relocating = None
        if not task.cancelled():
            task.exception()

    def describe(self) -> str:
        """The state for error texts."""
        if self.located is not None:
            return self.located.describe()
        return f"state {self.state_name!r}" + (f" of job {self.job!r}" if self.job else "")
