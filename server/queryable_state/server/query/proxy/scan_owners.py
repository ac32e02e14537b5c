"""Owners of one scan or watch: remote servers, and this process if it owns key groups."""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING

from queryable_state.server.query.retries import no_owner
from queryable_state.wire.errors import QueryableStateError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable

    from queryable_state.server.query.proxy.location_table import LocationTable
    from queryable_state.server.query.proxy.owner_calls import OwnerCalls
    from queryable_state.server.query.router import Engine
    from queryable_state.server.query.scan_query import ScanQuery
    from queryable_state.server.query.watch_query import WatchQuery
    from queryable_state.v1 import query_pb2, watch_pb2
    from queryable_state.wire.located_state import LocatedState, Owner


class ScanOwners:
    """Starts the parts of a scan on their owners; one of them may be this process.

    Connections stay open until `aclose`, because an owner may serve several parts.
    """

    def __init__(
        self,
        locations: LocationTable,
        calls: OwnerCalls,
        *,
        server_id: str,
        engine: Engine | None,
    ) -> None:
        self._locations = locations
        self._calls = calls
        self._server_id = server_id
        self._engine = engine
        self._kept: dict[Owner, Callable[[], Awaitable[None]]] = {}

    async def scan(
        self, owner: Owner, located: LocatedState, query: ScanQuery
    ) -> AsyncGenerator[query_pb2.ScanKvStateResponse, None]:
        """An owner's part; `page_token` of its messages is the plain wire key."""
        if self._engine is not None and owner.server_id == self._server_id:
            part = self._engine.scan(query)
        elif not owner.address:
            raise QueryableStateError.from_proto(no_owner(located))
        else:
            if owner not in self._kept:
                self._kept[owner] = self._calls.keep(owner)
            part = self._calls.scan(owner, located, query)
        async with aclosing(part) as messages:
            async for message in messages:
                yield message

    async def watch(
        self, owner: Owner, located: LocatedState, query: WatchQuery
    ) -> AsyncGenerator[watch_pb2.WatchKvStateResponse, None]:
        """An owner's part of a watch."""
        if self._engine is not None and owner.server_id == self._server_id:
            part = self._engine.watch(query)
        elif not owner.address:
            raise QueryableStateError.from_proto(no_owner(located))
        else:
            part = self._calls.watch(owner, located, query)
        async with aclosing(part) as messages:
            async for message in messages:
                yield message

    async def refreshed(self, located: LocatedState) -> LocatedState:
        """Locates the state again, with a newer placement if the coordinator has one."""
        return await self._locations.locate_id(
            located.state_id, newer_than=located.placement_version
        )

    async def aclose(self) -> None:
        """Releases the connections; idempotent."""
        while self._kept:
            _, release = self._kept.popitem()
            await release()
