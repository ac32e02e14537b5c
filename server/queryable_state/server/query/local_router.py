"""Router that answers from the state of its own process."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from queryable_state.server.query.frames.answer_frames import frame_of
from queryable_state.server.query.hot_keys import hot_keys_here
from queryable_state.server.query.router import LocatedRouter, QuerySession
from queryable_state.server.query.size_sum import size_of

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence

    from queryable_state.server.query.router import Deliver, Engine, Locations
    from queryable_state.server.query.scan_query import ScanQuery
    from queryable_state.server.query.watch_query import WatchQuery
    from queryable_state.v1 import hot_keys_pb2, query_pb2, watch_pb2
    from queryable_state.wire.located_state import LocatedState


class LocalRouter(LocatedRouter):
    """Reads the state of this process, without a task if the answer is available at once.

    Keys of other owners are refused with NOT_OWNER. `locations` locates states; the caller
    closes it.
    """

    def __init__(self, engine: Engine, locations: Locations) -> None:
        self.engine = engine
        """The engine that answers now."""
        self._locations = locations

    def use(self, engine: Engine, locations: Locations) -> None:
        """Answers from these from now on, also in open sessions."""
        self.engine = engine
        self._locations = locations

    def session(self, deliver: Deliver, authorization: str = "") -> QuerySession:
        return _LocalSession(self, deliver)

    async def answers(self, query: query_pb2.Query) -> list[query_pb2.Answer]:
        answer = self.engine.answer(query)
        return [await self.engine.answer_later(query) if answer is None else answer]

    def scan(
        self, query: ScanQuery, located: LocatedState
    ) -> AsyncGenerator[query_pb2.ScanKvStateResponse, None]:
        return self.engine.scan(query)

    def watch(
        self, query: WatchQuery, located: LocatedState
    ) -> AsyncGenerator[watch_pb2.WatchKvStateResponse, None]:
        return self.engine.watch(query)

    async def measure(
        self, located: LocatedState, timeout_ms: int, *, placement_version: int = 0
    ) -> query_pb2.MeasureStateResponse:
        parts = await self.engine.measure(located.state_id)
        measured = sum(part.last_key_group - part.first_key_group + 1 for part in parts)
        return size_of(parts, complete=measured == located.registration.max_parallelism)

    async def hot_keys(
        self,
        states: Sequence[LocatedState],
        limit: int,
        timeout_ms: int,
        *,
        placement_version: int = 0,
    ) -> hot_keys_pb2.ListHotKeysResponse:
        return hot_keys_here(self.engine, states, limit)

    async def aclose(self) -> None:
        """Does nothing: the router holds no resources."""


class LaterAnswers(QuerySession):
    """A session that delivers some answers once they are there."""

    def __init__(self, deliver: Deliver) -> None:
        self._deliver = deliver
        self._pending: set[asyncio.Task[None]] = set()

    def _answer_later(
        self, query_id: int, answer: Callable[[], Coroutine[Any, Any, query_pb2.Answer]]
    ) -> None:
        """Delivers the whole answer to a query, which never raises."""

        async def deliver() -> None:
            self._deliver(query_id, frame_of(await answer()), True)

        task = asyncio.get_running_loop().create_task(deliver())
        self._pending.add(task)
        task.add_done_callback(self._pending.discard)

    async def aclose(self) -> None:
        """Cancels pending queries."""
        pending = tuple(self._pending)
        for task in pending:
            task.cancel()
        await asyncio.gather(*pending, return_exceptions=True)


class _LocalSession(LaterAnswers):
    """Answers at once, except for queries that wait or are read on another thread."""

    def __init__(self, router: LocalRouter, deliver: Deliver) -> None:
        super().__init__(deliver)
        self._router = router

    def ask(self, query: query_pb2.Query, frame: bytes) -> bytes | None:
        engine = self._router.engine
        found = engine.look_up(query)
        if found is not None:
            return found
        answer = engine.answer(query)
        if answer is not None:
            return frame_of(answer)
        self._answer_later(query.id, lambda: self._router.engine.answer_later(query))
        return None
