"""Router of a proxy: routes queries to the owners of their keys."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from queryable_state.server.metrics.proxy_counts import ProxyCounts
from queryable_state.server.query.hot_keys import hot_keys_of_owners
from queryable_state.server.query.proxy.owner_calls import OwnerCalls
from queryable_state.server.query.proxy.owner_streams import Channels
from queryable_state.server.query.proxy.proxy_session import ProxySession
from queryable_state.server.query.proxy.scan_merge import MergedScan
from queryable_state.server.query.proxy.scan_owners import ScanOwners
from queryable_state.server.query.proxy.size_estimate import measured_by_owners
from queryable_state.server.query.proxy.watches.watch_merge import MergedWatch
from queryable_state.server.query.router import LocatedRouter
from queryable_state.server.serving.large_request_queue import LARGE_BYTES, LargeRequestQueue
from queryable_state.v1 import query_pb2
from queryable_state.wire.errors import InvalidRequestError
from queryable_state.wire.security.connector import CLEAR_TEXT

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence

    from queryable_state.server.query.proxy.location_table import LocationTable
    from queryable_state.server.query.router import Deliver, Engine
    from queryable_state.server.query.scan_query import ScanQuery
    from queryable_state.server.query.watch_query import WatchQuery
    from queryable_state.v1 import hot_keys_pb2, watch_pb2
    from queryable_state.wire.located_state import LocatedState
    from queryable_state.wire.security.connector import Connector
    from queryable_state.wire.security.signed_calls import CallSigner


# Large queries outside of streams that may be pending at owners at once. An owner completes a query
# even after its client has given up; a query that waits here costs nothing once given up.
_LARGE_AT_ONCE = 8


class ProxyRouter(LocatedRouter):
    """Routes each query to the owners of its keys; stores no values.

    `engine` reads the keys that `server_id` owns, in this process; a standalone proxy has none.
    The caller closes `locations`.
    """

    _locations: LocationTable

    def __init__(
        self,
        locations: LocationTable,
        *,
        server_id: str,
        engine: Engine | None = None,
        signer: CallSigner | None = None,
        connector: Connector = CLEAR_TEXT,
        default_deadline_ms: int = 10_000,
    ) -> None:
        """`signer`: signs the calls to owners; None: owners need no signature."""
        self._locations = locations
        self._server_id = server_id
        self._engine = engine
        self._default_deadline_ms = default_deadline_ms
        self._channels = Channels(signer, connector)
        self._calls = OwnerCalls(self._channels)
        self._sessions: set[ProxySession] = set()
        self._unary: dict[bool, ProxySession] = {}
        """Sessions of calls outside of streams, by whether their queries may wait for a commit."""
        self._turns = LargeRequestQueue()
        self._large = {may_wait: asyncio.Semaphore(_LARGE_AT_ONCE) for may_wait in (False, True)}
        self._pending: dict[int, tuple[list[query_pb2.Answer], asyncio.Future[None]]] = {}
        self._last_id = 0
        self.counts = ProxyCounts()
        """Counters of all its queries."""

    @property
    def owners_without_frames(self) -> int:
        """Number of owners whose frame port is not reached."""
        return self._channels.frame_ports.unreachable

    def session(self, deliver: Deliver, authorization: str = "") -> ProxySession:
        session = ProxySession(
            deliver,
            self._locations,
            self._channels,
            server_id=self._server_id,
            engine=self._engine,
            default_deadline_ms=self._default_deadline_ms,
            counts=self.counts,
            on_closed=self._sessions.discard,
        )
        self._sessions.add(session)
        return session

    async def answers(self, query: query_pb2.Query) -> list[query_pb2.Answer]:
        may_wait = bool(query.min_version or query.max_staleness_ms or query.HasField("at_version"))
        if query.ByteSize() <= LARGE_BYTES:
            return await self._answers(query, may_wait)
        loop = asyncio.get_running_loop()
        begun_s = loop.time()
        async with self._large[may_wait]:
            deadline_ms = query.deadline_ms or self._default_deadline_ms
            waited_ms = int((loop.time() - begun_s) * 1000)
            query.deadline_ms = max(1, deadline_ms - waited_ms)
            answers = await self._answers(query, may_wait)
            # Several answers may arrive together, and each becomes a large response.
            await self._turns.next()
            return answers

    async def _answers(self, query: query_pb2.Query, may_wait: bool) -> list[query_pb2.Answer]:
        session = self._unary.get(may_wait)
        if session is None:
            session = self._unary[may_wait] = self.session(self._collect)
        self._last_id += 1
        query.id = self._last_id
        request = query_pb2.ClientFrame(query=query)
        parts: list[query_pb2.Answer] = []
        ended = asyncio.get_running_loop().create_future()
        # Registered before the call: an answer of this process is delivered within it.
        self._pending[query.id] = (parts, ended)
        try:
            answer = session.answer(query, request.SerializeToString())
            if answer is not None:
                return [answer]
            await ended
        finally:
            del self._pending[query.id]
        return parts

    def scan(
        self, query: ScanQuery, located: LocatedState
    ) -> AsyncGenerator[query_pb2.ScanKvStateResponse, None]:
        self._check_whole_state(query.placement_version)
        owners = ScanOwners(
            self._locations, self._calls, server_id=self._server_id, engine=self._engine
        )
        return MergedScan(
            query, located, owners, default_timeout_ms=self._default_deadline_ms
        ).messages()

    def watch(
        self, query: WatchQuery, located: LocatedState
    ) -> AsyncGenerator[watch_pb2.WatchKvStateResponse, None]:
        self._check_whole_state(query.placement_version)
        owners = ScanOwners(
            self._locations, self._calls, server_id=self._server_id, engine=self._engine
        )
        return MergedWatch(query, located, owners).messages()

    async def measure(
        self, located: LocatedState, timeout_ms: int, *, placement_version: int = 0
    ) -> query_pb2.MeasureStateResponse:
        self._check_whole_state(placement_version)
        return await measured_by_owners(
            located,
            self._locations,
            self._calls,
            server_id=self._server_id,
            engine=self._engine,
            timeout_s=timeout_ms / 1000,
        )

    async def hot_keys(
        self,
        states: Sequence[LocatedState],
        limit: int,
        timeout_ms: int,
        *,
        placement_version: int = 0,
    ) -> hot_keys_pb2.ListHotKeysResponse:
        self._check_whole_state(placement_version)
        return await hot_keys_of_owners(
            states,
            limit,
            self._calls,
            server_id=self._server_id,
            engine=self._engine,
            timeout_s=timeout_ms / 1000,
        )

    async def aclose(self) -> None:
        """Closes every session; idempotent."""
        self._unary.clear()
        for session in tuple(self._sessions):
            await session.aclose()

    def _check_whole_state(self, placement_version: int) -> None:
        if placement_version:
            raise InvalidRequestError(
                f"proxy {self._server_id} has no state of its own: call the owners, which "
                "LocateState names, or leave placement_version out"
            )

    def _collect(self, query_id: int, frame: bytes, last: bool) -> None:
        pending = self._pending.get(query_id)
        if pending is not None:
            parts, ended = pending
            parts.append(query_pb2.ServerFrame.FromString(frame).answer)
            if last and not ended.done():
                ended.set_result(None)
