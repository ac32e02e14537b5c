"""Session of one client on a frame connection: its hello, its queries and their answers."""

from __future__ import annotations

import asyncio
from time import perf_counter
from typing import TYPE_CHECKING

from queryable_state.server.metrics.port_traffic import SAMPLED
from queryable_state.server.metrics.query_counts import UNKNOWN_KIND
from queryable_state.server.query.checks import check_query, limit_deadline
from queryable_state.server.query.frames.answer_frames import frame_of, refusal_of
from queryable_state.server.query.frames.open_streams import stopping
from queryable_state.server.query.request_limits import fields_of_keys, parser
from queryable_state.v1 import query_pb2
from queryable_state.wire.errors import (
    InvalidRequestError,
    QueryableStateError,
    Reason,
    RetryLaterError,
    shown,
)
from queryable_state.wire.frames.stream_hello import common_version, no_common_version

if TYPE_CHECKING:
    from collections.abc import Callable

    from queryable_state.server.query.router import Deliver, QuerySession, Router, ServiceInfo


class StreamSession:
    """Answers the hello, then each query: `answer` returns the answer, or `deliver` gets it later.

    The connection decides when frames are read and how they are written. A refusal of the whole
    connection is raised.
    """

    def __init__(
        self,
        router: Router,
        info: ServiceInfo,
        deliver: Deliver,
        on_refused: Callable[[QueryableStateError], None],
    ) -> None:
        """`on_refused` ends the connection if it is refused between two frames."""
        self._info = info
        self._on_refused: Callable[[QueryableStateError], None] | None = on_refused
        self._deliver = deliver
        self._router = router
        self._session: QuerySession | None = None
        """None before the hello, and once it is closed."""
        self._unanswered: dict[int, int] = {}
        """Bytes of each unanswered query, by id."""
        # One field of the frame is the query, which holds the keys.
        self._parse = parser(
            query_pb2.ClientFrame.FromString,
            "ClientFrame",
            fields_of_keys(info.limits),
            info.limits,
            within=query_pb2.ClientFrame.QUERY_FIELD_NUMBER,
        )
        self._idle = asyncio.Event()
        self._idle.set()
        self._draining = False
        self.unanswered_bytes = 0
        """Bytes of all unanswered queries."""
        self._traffic = info.traffic
        self._state_id = 0
        self._counts = self._traffic.frame_queries.of(0)
        """Queries to `_state_id`, the state of the newest query, by kind of read."""
        self._begun_s: dict[int, float] = {}
        """Arrival of unanswered queries that are timed, by id."""

    @property
    def unanswered(self) -> int:
        """Number of unanswered queries."""
        return len(self._unanswered)

    def greet(self, frame: bytes) -> bytes:
        """Returns the answer to the first frame."""
        request = self._parse(frame)
        if request.WhichOneof("frame") != "hello":
            raise InvalidRequestError("the first frame of a connection must be a hello")
        offered = request.hello
        version = common_version(offered.min_version, offered.max_version)
        if not version:
            raise no_common_version(
                f"server {self._info.server_id}",
                f"client {shown(offered.client)!r}",
                offered.min_version,
                offered.max_version,
            )
        self._session = self._router.session(self._delivered, offered.authorization)
        self._session.on_refused = self._on_refused
        hello = query_pb2.ServerHello(
            protocol_version=version,
            server_id=self._info.server_id,
            role=self._info.role,
            limits=self._info.limits.to_proto(),
        )
        return query_pb2.ServerFrame(hello=hello).SerializeToString()

    def answer(self, frame: bytes) -> bytes | None:
        """Returns the answer to a frame; None if `deliver` gets it later."""
        request = self._parse(frame)
        query = request.query
        if self._session is None:
            raise stopping(self._info)
        try:
            if request.WhichOneof("frame") != "query":
                raise InvalidRequestError("only the first frame of a connection may be a hello")
            self._admit(query, len(frame))
        except QueryableStateError as refusal:
            self._traffic.refused[refusal.reason_name] += 1
            return frame_of(refusal_of(query.id, refusal))
        if query.state_id != self._state_id:
            self._state_id = query.state_id
            self._counts = self._traffic.frame_queries.of(query.state_id)
        counts, read = self._counts, query.read
        try:
            counts[read] = asked = counts[read] + 1
        except IndexError:
            # A client sends any number.
            counts[UNKNOWN_KIND] = asked = counts[UNKNOWN_KIND] + 1
        if not asked & (SAMPLED - 1):
            self._begun_s[query.id] = self._traffic.sampled(query)
        # Counted before the router is called, which may deliver all parts at once.
        self._unanswered[query.id] = len(frame)
        self.unanswered_bytes += len(frame)
        answer = self._session.ask(query, frame)
        if answer is not None:
            self._forget(query.id)
        elif self._unanswered:
            self._idle.clear()
        return answer

    def go_away(self) -> bytes:
        """Returns the frame that tells the client to use another server."""
        response = query_pb2.ServerFrame(go_away=stopping(self._info).to_proto())
        return response.SerializeToString()

    async def drain(self) -> None:
        """Returns once every received query is answered; refuses later ones."""
        self._draining = True
        await self._idle.wait()

    async def aclose(self) -> None:
        """Cancels pending queries and drops every reference to the connection; idempotent."""
        session, self._session = self._session, None
        self._deliver = _to_nobody
        self._on_refused = None
        if session is not None:
            session.on_refused = None
            await session.aclose()
        self._unanswered.clear()
        self._begun_s.clear()
        self.unanswered_bytes = 0

    def _admit(self, query: query_pb2.Query, frame_bytes: int) -> None:
        limits = self._info.limits
        if self._draining:
            raise stopping(self._info)
        if query.id in self._unanswered:
            raise InvalidRequestError(f"query id {query.id} is in use by an unanswered query")
        if len(self._unanswered) >= limits.queries_in_flight:
            raise RetryLaterError(
                f"{len(self._unanswered)} queries of this connection are unanswered, which is the "
                f"limit of server {self._info.server_id}: put more keys into a query",
                reason=Reason.OVERLOADED,
                retry_after_ms=20,
            )
        check_query(query, limits, frame_bytes)
        limit_deadline(query)

    def _delivered(self, query_id: int, frame: bytes, last: bool) -> None:
        if last:
            self._forget(query_id)
            if not self._unanswered:
                self._idle.set()
        self._deliver(query_id, frame, last)

    def _forget(self, query_id: int) -> None:
        self.unanswered_bytes -= self._unanswered.pop(query_id, 0)
        if self._begun_s:
            begun_s = self._begun_s.pop(query_id, None)
            if begun_s is not None:
                self._traffic.frame_durations.add(perf_counter() - begun_s)


def _to_nobody(_query_id: int, _frame: bytes, _last: bool) -> None:
    """Drops the answers to a closed connection."""
