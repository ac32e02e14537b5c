"""Router of a server that shares the partitions of a query with other servers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from queryable_state.server.query.proxy.proxy_router import ProxyRouter

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence

    from queryable_state.server.query.local_router import LocalRouter
    from queryable_state.server.query.scan_query import ScanQuery
    from queryable_state.server.query.watch_query import WatchQuery
    from queryable_state.v1 import hot_keys_pb2, query_pb2, watch_pb2
    from queryable_state.wire.located_state import LocatedState


class SharedRouter(ProxyRouter):
    """Answers every key: its own from this process, others through the servers that have them.

    Requests that a proxy, or another server, has routed already are answered by `own` alone.
    """

    own: LocalRouter
    """The router of this process's partitions; set once after it is made."""

    def scan(
        self, query: ScanQuery, located: LocatedState
    ) -> AsyncGenerator[query_pb2.ScanKvStateResponse, None]:
        routed = query.placement_version
        return (self.own.scan if routed else super().scan)(query, located)

    def watch(
        self, query: WatchQuery, located: LocatedState
    ) -> AsyncGenerator[watch_pb2.WatchKvStateResponse, None]:
        routed = query.placement_version
        return (self.own.watch if routed else super().watch)(query, located)

    async def measure(
        self, located: LocatedState, timeout_ms: int, *, placement_version: int = 0
    ) -> query_pb2.MeasureStateResponse:
        measure = self.own.measure if placement_version else super().measure
        return await measure(located, timeout_ms, placement_version=placement_version)

    async def hot_keys(
        self,
        states: Sequence[LocatedState],
        limit: int,
        timeout_ms: int,
        *,
        placement_version: int = 0,
    ) -> hot_keys_pb2.ListHotKeysResponse:
        hot_keys = self.own.hot_keys if placement_version else super().hot_keys
        return await hot_keys(states, limit, timeout_ms, placement_version=placement_version)
