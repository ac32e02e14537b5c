"""Finds where states are, once for all who want to know."""

from __future__ import annotations

from typing import TYPE_CHECKING

from queryable_state.client._routing.retries import CALLS
from queryable_state.client._routing.state_handle import StateHandle
from queryable_state.v1 import query_pb2
from queryable_state.wire.calls.retrying import retrying
from queryable_state.wire.calls.single_flight import SingleFlight
from queryable_state.wire.located_state import LocatedState

if TYPE_CHECKING:
    from collections.abc import Iterable

    from queryable_state.client._routing.connection_pool import ConnectionPool

_LOCATE_TIMEOUT_S = 5.0


class Locator:
    """The handles of the states a client asked for, and their places. On one event loop."""

    def __init__(self, pool: ConnectionPool, *, unpickle: bool) -> None:
        self._pool = pool
        self._unpickle = unpickle
        self._handles: dict[tuple[str, str], StateHandle] = {}
        self._relocations: SingleFlight[StateHandle, LocatedState] = SingleFlight()

    def handle(self, job: str, state_name: str) -> StateHandle:
        """The handle of a state by the names the caller uses."""
        handle = self._handles.get((job, state_name))
        if handle is None:
            handle = StateHandle(job, state_name, unpickle=self._unpickle)
            self._handles[(job, state_name)] = handle
        return handle

    def handles(self) -> Iterable[StateHandle]:
        """All handles there are."""
        return self._handles.values()

    async def locate(self, handle: StateHandle, newer_than: int = 0) -> LocatedState:
        """Where a state is, as a server says; one attempt."""
        request = query_pb2.LocateStateRequest(
            job=handle.job, state_name=handle.state_name, newer_than=newer_than
        )
        response = await self._pool.locate_state(request, timeout_s=_LOCATE_TIMEOUT_S)
        return LocatedState.of(response.location)

    async def relocate(self, handle: StateHandle, known: LocatedState) -> None:
        """Takes over a placement newer than the known one; asked for once for all that want it."""
        located = await self._relocations.run(
            handle, lambda: self.locate(handle, known.placement_version)
        )
        if handle.located is known:
            self.place(handle, located)

    async def located(self, handle: StateHandle, deadline: float) -> LocatedState:
        """Where a state is, from what is known already or asked for until the deadline."""

        async def attempt() -> LocatedState:
            if handle.located is None:
                located = await self.locate(handle)
                if handle.located is None:
                    self.place(handle, located)
            assert handle.located is not None
            return handle.located

        return await retrying(attempt, CALLS, deadline_s=deadline)

    def place(self, handle: StateHandle, located: LocatedState) -> None:
        """Takes over a placement; closes the connections nobody needs any more."""
        handle.place(located)
        self._pool.keep(self._handles.values())

    async def aclose(self) -> None:
        """Ends pending calls; idempotent."""
        await self._relocations.aclose()
