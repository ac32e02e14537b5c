"""Batches that wait until the client has located their state."""

from __future__ import annotations

import math
from collections import defaultdict
from typing import TYPE_CHECKING

from queryable_state.client._routing.retries import CALLS
from queryable_state.wire.calls.retrying import retrying
from queryable_state.wire.errors import QueryableStateError

if TYPE_CHECKING:
    from collections.abc import Callable

    from queryable_state.client._batching.batch import Batch
    from queryable_state.client._batching.state_handle import StateHandle
    from queryable_state.client._connection.events import BatchEvents
    from queryable_state.client._routing.locator import Locator
    from queryable_state.wire.located_state import LocatedState


class UnlocatedBatches:
    """Waiting batches by state, with one background task for each state that is being located.

    Located batches go to `events.reroute`; `fail` ends a batch with the error of its state.
    """

    def __init__(
        self,
        locator: Locator,
        events: BatchEvents,
        fail: Callable[[Batch, QueryableStateError], None],
    ) -> None:
        self._locator = locator
        self._events = events
        self._fail = fail
        self._waiting: defaultdict[StateHandle, list[Batch]] = defaultdict(list)
        self._locating: set[StateHandle] = set()

    def add(self, batch: Batch) -> None:
        """Keeps a batch and locates its state in the background."""
        handle = batch.batcher.handle
        self._waiting[handle].append(batch)
        if handle not in self._locating:
            self._locating.add(handle)
            self._events.run(self._locate(handle))

    async def _locate(self, handle: StateHandle) -> None:
        async def attempt() -> LocatedState | None:
            # Every batch ends at its own deadline; the attempts have no common one.
            is_needed = any(not batch.done for batch in self._waiting[handle])
            return await self._locator.locate(handle) if is_needed else None

        def note(error: QueryableStateError) -> None:
            for batch in self._waiting[handle]:
                batch.failure = error

        try:
            located = await retrying(attempt, CALLS, deadline_s=math.inf, before_retry=note)
            if located is not None:
                self._locator.place(handle, located)
                for batch in self._take(handle):
                    if not batch.done:
                        self._events.reroute(batch)
        except QueryableStateError as error:
            for batch in self._take(handle):
                if not batch.done:
                    self._fail(batch, error)
        finally:
            self._locating.discard(handle)
            waiting = [batch for batch in self._take(handle) if not batch.done]
            if waiting:
                self._waiting[handle] = waiting

    def _take(self, handle: StateHandle) -> list[Batch]:
        return self._waiting.pop(handle, [])
