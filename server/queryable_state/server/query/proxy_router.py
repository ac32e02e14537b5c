"""Answers for every key, from whoever owns it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from queryable_state.server.query.router import QuerySession, Router

if TYPE_CHECKING:
    from queryable_state.server.query.location_table import LocationTable
    from queryable_state.server.query.router import Deliver, Engine
    from queryable_state.v1 import query_pb2
    from queryable_state.wire.located_state import LocatedState


class ProxyRouter(Router):
    """Relays each query to the owners of its keys, and keeps no value.

    `engine` answers the keys that `server_id` owns without a hop; a stand-alone
    proxy has none. `locations` stays the caller's to close.
    """

    def __init__(
        self,
        locations: LocationTable,
        *,
        server_id: str,
        engine: Engine | None = None,
        default_deadline_ms: int = 10_000,
    ) -> None:
        self._locations = locations
        self._server_id = server_id
        self._engine = engine
        self._default_deadline_ms = default_deadline_ms

    def session(self, deliver: Deliver) -> QuerySession:
        raise NotImplementedError

    async def answers(self, query: query_pb2.Query) -> list[query_pb2.Answer]:
        raise NotImplementedError

    async def locate(self, request: query_pb2.LocateStateRequest) -> LocatedState:
        return await self._locations.locate(request)

    async def list_jobs(self, request: query_pb2.ListJobsRequest) -> query_pb2.ListJobsResponse:
        return await self._locations.link.list_jobs(request)

    async def list_states(
        self, request: query_pb2.ListStatesRequest
    ) -> query_pb2.ListStatesResponse:
        return await self._locations.link.list_states(request)

    async def aclose(self) -> None:
        """Ends every upstream; idempotent."""
