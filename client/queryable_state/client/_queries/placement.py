"""Where the states of a client are: their handles, placements, and the batchers that use them."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from queryable_state.client._queries.handle import StateHandle
from queryable_state.client._queries.lookups import KeyBatcher, never_alone
from queryable_state.client._queries.retries import CALLS
from queryable_state.v1 import query_pb2
from queryable_state.wire.calls.retrying import retrying
from queryable_state.wire.calls.single_flight import SingleFlight
from queryable_state.wire.located_state import LocatedState

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from queryable_state.client._queries.lookups import QueryOptions, SendAlone, Submit
    from queryable_state.client._queries.pool import ConnectionPool
    from queryable_state.client._reading.pending_results import PendingResults
    from queryable_state.wire.errors import QueryableStateError

_LOCATE_TIMEOUT_S = 5.0


class KeyBatchers:
    """One `KeyBatcher` for each state and set of options.

    References are weak: callers may compute timeouts and namespaces, so a batcher lives only
    as long as a caller or a batch uses it.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, submit: Submit, send_alone: SendAlone
    ) -> None:
        self._loop = loop
        self._submit = submit
        self._send_alone = send_alone
        self._by_state: defaultdict[StateHandle, WeakValueDictionary[QueryOptions, KeyBatcher]] = (
            defaultdict(WeakValueDictionary)
        )

    def get(self, handle: StateHandle, options: QueryOptions) -> KeyBatcher:
        """Returns the batcher of a state and options; creates it if there is none."""
        batchers = self._by_state[handle]
        batcher = batchers.get(options)
        if batcher is None:
            batcher = batchers[options] = KeyBatcher(
                self._loop, self._submit, self._send_alone, handle, options
            )
        return batcher

    def place(self, handle: StateHandle, located: LocatedState) -> None:
        """Stores a placement in the handle and prepares its batchers for it.

        Collected keys are submitted first, because the previous codecs have encoded them.
        """
        batchers = tuple(self._by_state[handle].values())
        for batcher in batchers:
            batcher.flush()
        handle.place(located)
        for batcher in tuple(self._by_state[handle].values()):
            batcher.adopt_placement()

    def refuse_all(self, error: Callable[[], QueryableStateError]) -> None:
        """Fails the collected keys of every batcher, and all further ones."""

        def refuse(_: KeyBatcher, keys: list[Any], results: PendingResults, __: object) -> None:
            results.fail(range(len(keys)), error())

        self._submit, self._send_alone = refuse, never_alone
        for batchers in tuple(self._by_state.values()):
            for batcher in tuple(batchers.values()):
                batcher.divert(refuse)

    def flush_all(self) -> None:
        """Submits the collected keys of every batcher."""
        for batchers in tuple(self._by_state.values()):
            for batcher in tuple(batchers.values()):
                batcher.flush()


class Locator:
    """Handles and placements of the states that a client queries. On one event loop."""

    def __init__(self, pool: ConnectionPool, batchers: KeyBatchers, *, unpickle: bool) -> None:
        self._pool = pool
        self._batchers = batchers
        self._unpickle = unpickle
        self._handles: dict[tuple[str, str], StateHandle] = {}
        self._relocations: SingleFlight[StateHandle, LocatedState] = SingleFlight()

    def handle(self, job: str, state_name: str) -> StateHandle:
        """Returns the handle of a state under the job and name that the caller uses."""
        handle = self._handles.get((job, state_name))
        if handle is None:
            handle = StateHandle(job, state_name, unpickle=self._unpickle)
            self._handles[(job, state_name)] = handle
        return handle

    async def locate(self, handle: StateHandle, newer_than: int = 0) -> LocatedState:
        """Fetches the placement of a state in one attempt.

        `newer_than`: a placement version that the answer must exceed; 0: any.
        """
        request = query_pb2.LocateStateRequest(
            job=handle.job, state_name=handle.state_name, newer_than=newer_than
        )
        response = await self._pool.locate_state(request, timeout_s=_LOCATE_TIMEOUT_S)
        return LocatedState.of(response.location)

    async def relocate(self, handle: StateHandle, known: LocatedState) -> None:
        """Fetches and stores a placement newer than `known`; concurrent calls share one fetch."""
        located = await self._relocations.run(
            handle, lambda: self.locate(handle, known.placement_version)
        )
        if handle.located is known:
            self.place(handle, located)

    async def located(self, handle: StateHandle, deadline: float) -> LocatedState:
        """Returns the known placement, or fetches one; retries until the deadline."""

        async def attempt() -> LocatedState:
            if handle.located is None:
                located = await self.locate(handle)
                if handle.located is None:
                    self.place(handle, located)
            assert handle.located is not None
            return handle.located

        return await retrying(attempt, CALLS, deadline_s=deadline)

    async def located_anew(
        self, handle: StateHandle, deadline: float, newer_than: int = 0
    ) -> LocatedState:
        """Resolves job and name again, and stores the placement; retries until the deadline.

        The name may be that of another job by now. `newer_than`: as in `locate`.
        """
        located = await retrying(
            lambda: self.locate(handle, newer_than), CALLS, deadline_s=deadline
        )
        self.place(handle, located)
        return located

    def place(self, handle: StateHandle, located: LocatedState) -> None:
        """Stores a placement; closes connections to servers that own nothing any more."""
        self._batchers.place(handle, located)
        self._pool.retain_owners(self._handles.values())

    async def aclose(self) -> None:
        """Cancels pending fetches; idempotent."""
        await self._relocations.aclose()
