"""Router of a server that shares the partitions of a query with other servers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from queryable_state.server.query.router import QuerySession
from queryable_state.server.query.routers.located_router import LocatedRouter

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence

    from queryable_state.server.query.proxy.proxy_router import ProxyRouter
    from queryable_state.server.query.router import Deliver, Router
    from queryable_state.server.query.routers.local_router import LocalRouter
    from queryable_state.server.query.scan_query import ScanQuery
    from queryable_state.server.query.watch_query import WatchQuery
    from queryable_state.v1 import hot_keys_pb2, query_pb2, watch_pb2
    from queryable_state.wire.located_state import LocatedState


# Proxies number the parts of the queries that they forward from here on.
_FORWARDED_IDS = 1 << 63


class SharedRouter(LocatedRouter):
    """Answers every key: its own from this process, others through the servers that have them.

    What another server has routed already is answered from this process alone, so two servers
    that know different owners never forward in circles.
    """

    def __init__(self, own: LocalRouter, others: ProxyRouter) -> None:
        """`others` reads this process's keys from it, too; the router closes both."""
        self._own = own
        self._others = others
        self._locations = own

    def session(self, deliver: Deliver, authorization: str = "") -> QuerySession:
        return _SharedSession(
            self._own.session(deliver, authorization), self._others.session(deliver, authorization)
        )

    async def answers(self, query: query_pb2.Query) -> list[query_pb2.Answer]:
        return await self._others.answers(query)

    def scan(
        self, query: ScanQuery, located: LocatedState
    ) -> AsyncGenerator[query_pb2.ScanKvStateResponse, None]:
        return self._router(query.placement_version).scan(query, located)

    def watch(
        self, query: WatchQuery, located: LocatedState
    ) -> AsyncGenerator[watch_pb2.WatchKvStateResponse, None]:
        return self._router(query.placement_version).watch(query, located)

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


class _SharedSession(QuerySession):
    """Answers forwarded queries from this process, and routes others."""

    def __init__(self, own: QuerySession, others: QuerySession) -> None:
        self._own = own
        self._others = others

    def ask(self, query: query_pb2.Query, frame: bytes) -> bytes | None:
        return (self._own if query.id >= _FORWARDED_IDS else self._others).ask(query, frame)

    async def aclose(self) -> None:
        """Drops pending queries."""
        await self._others.aclose()
        await self._own.aclose()
