"""Router of a server that shares the partitions of a query with other servers."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from queryable_state.server.native_state.server.any_partition import (
    changes_of_keys,
    watch_of_every_key,
)
from queryable_state.server.query.local_router import LaterAnswers
from queryable_state.server.query.router import LocatedRouter

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping, Sequence

    from queryable_state.server.native_state.server.any_partition import EveryServer
    from queryable_state.server.query.local_router import LocalRouter
    from queryable_state.server.query.proxy.proxy_router import ProxyRouter
    from queryable_state.server.query.router import Deliver, QuerySession, Router
    from queryable_state.server.query.scan_query import ScanQuery
    from queryable_state.server.query.watch_query import WatchQuery
    from queryable_state.v1 import hot_keys_pb2, query_pb2, watch_pb2
    from queryable_state.wire.located_state import LocatedState

    Ask = Callable[[], Coroutine[Any, Any, query_pb2.Answer]]


# Proxies number the parts of the queries that they forward from here on.
_FORWARDED_IDS = 1 << 63


class SharedRouter(LocatedRouter):
    """Answers every key: its own from this process, others through the servers that have them.

    What another server has routed already is answered from this process alone, so two servers
    that know different owners never forward in circles.
    """

    def __init__(
        self,
        own: LocalRouter,
        others: ProxyRouter,
        unplaced: Callable[[], Mapping[int, int]],
        every_server: EveryServer,
    ) -> None:
        """`others` reads this process's keys from it, too; the router closes both.

        `unplaced` returns the number of partitions of each state whose keys may be in any one;
        `every_server` is asked for these.
        """
        self._own = own
        self._others = others
        self._locations = own
        self._unplaced = unplaced
        self._every_server = every_server

    def session(self, deliver: Deliver, authorization: str = "") -> QuerySession:
        return _SharedSession(
            self._own.session(deliver, authorization),
            self._others.session(deliver, authorization),
            self._of_every_server,
            deliver,
        )

    async def answers(self, query: query_pb2.Query) -> list[query_pb2.Answer]:
        asked = self._of_every_server(query)
        return await self._others.answers(query) if asked is None else [await asked()]

    def _of_every_server(self, query: query_pb2.Query) -> Ask | None:
        """Asks all servers; None if the hash of each key says which one has it."""
        partitions = self._unplaced().get(query.state_id, 0)
        if not partitions:
            return None
        if not all(len(key) >= 2 and int.from_bytes(key[:2]) < partitions for key in query.keys):
            # The router refuses keys without a key group of the state.
            return None
        return partial(self._every_server.answer, query, partitions)

    def scan(
        self, query: ScanQuery, located: LocatedState
    ) -> AsyncGenerator[query_pb2.ScanKvStateResponse, None]:
        return self._router(query.placement_version).scan(query, located)

    def watch(
        self, query: WatchQuery, located: LocatedState
    ) -> AsyncGenerator[watch_pb2.WatchKvStateResponse, None]:
        partitions = self._unplaced().get(query.state_id, 0)
        if query.placement_version or not query.keys or not partitions:
            return self._router(query.placement_version).watch(query, located)
        whole = watch_of_every_key(query, partitions)
        return changes_of_keys(query, self._others.watch(whole, located))

    async def measure(
        self, located: LocatedState, timeout_ms: int, *, placement_version: int = 0
    ) -> query_pb2.MeasureStateResponse:
        return await self._router(placement_version).measure(
            located, timeout_ms, placement_version=placement_version
        )

    async def hot_keys(
        self,
        states: Sequence[LocatedState],
        limit: int,
        timeout_ms: int,
        *,
        placement_version: int = 0,
    ) -> hot_keys_pb2.ListHotKeysResponse:
        return await self._router(placement_version).hot_keys(
            states, limit, timeout_ms, placement_version=placement_version
        )

    async def aclose(self) -> None:
        """Closes every session; idempotent."""
        await self._others.aclose()
        await self._own.aclose()

    def _router(self, placement_version: int) -> Router:
        """The router of a request; one with a placement version was routed already."""
        return self._own if placement_version else self._others


class _SharedSession(LaterAnswers):
    """Answers forwarded queries from this process, and routes others."""

    def __init__(
        self,
        own: QuerySession,
        others: QuerySession,
        of_every_server: Callable[[query_pb2.Query], Ask | None],
        deliver: Deliver,
    ) -> None:
        super().__init__(deliver)
        self._own = own
        self._others = others
        self._of_every_server = of_every_server

    def ask(self, query: query_pb2.Query, frame: bytes) -> bytes | None:
        if query.id >= _FORWARDED_IDS or query.partitions:
            return self._own.ask(query, frame)
        asked = self._of_every_server(query)
        if asked is None:
            return self._others.ask(query, frame)
        self._answer_later(query.id, asked)
        return None

    async def aclose(self) -> None:
        """Drops pending queries."""
        await super().aclose()
        await self._others.aclose()
        await self._own.aclose()
