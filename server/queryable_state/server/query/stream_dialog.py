"""What is said on one stream of queries, over whichever connection."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from google.protobuf.message import DecodeError

from queryable_state.server.query.answer_frames import frame_of, refusal_of
from queryable_state.server.query.checks import check_query
from queryable_state.server.query.open_streams import stopping
from queryable_state.v1 import query_pb2
from queryable_state.wire.errors import (
    InvalidRequestError,
    QueryableStateError,
    Reason,
    RetryLaterError,
)
from queryable_state.wire.stream_hello import PROTOCOL_VERSION

if TYPE_CHECKING:
    from queryable_state.server.query.router import Deliver, Router, ServiceInfo


class StreamDialog:
    """Hello, then an answer to each query: at once where `answer` returns it, else by `deliver`.

    The connection's: when frames are read, and how they are written. What refuses
    the whole stream is raised.
    """

    def __init__(
        self, router: Router, info: ServiceInfo, deliver: Deliver, *, frame_port: int = 0
    ) -> None:
        self._info = info
        self._frame_port = frame_port
        self._deliver = deliver
        self._session = router.session(self._delivered)
        self._unanswered = 0
        self._idle = asyncio.Event()
        self._idle.set()
        self._draining = False

    def greet(self, frame: bytes) -> bytes:
        """The answer to the first frame."""
        request = _parse(frame)
        if request.WhichOneof("frame") != "hello":
            raise InvalidRequestError("the first frame of a stream must be a hello")
        if request.hello.protocol_version != PROTOCOL_VERSION:
            raise InvalidRequestError(
                f"server {self._info.server_id} speaks version {PROTOCOL_VERSION} of the query "
                f"protocol, the client {request.hello.client!r} version "
                f"{request.hello.protocol_version}: use a client of the same version",
                reason=Reason.PROTOCOL_MISMATCH,
            )
        hello = query_pb2.ServerHello(
            protocol_version=PROTOCOL_VERSION,
            server_id=self._info.server_id,
            role=self._info.role,
            limits=self._info.limits.to_proto(),
            frame_port=self._frame_port,
        )
        return query_pb2.StreamKvStateResponse(hello=hello).SerializeToString()

    def answer(self, frame: bytes) -> bytes | None:
        """The whole answer to a frame, or None where it comes later."""
        request = _parse(frame)
        query = request.query
        try:
            if request.WhichOneof("frame") != "query":
                raise InvalidRequestError("only the first frame of a stream may be a hello")
            self._admit(query, len(frame))
        except QueryableStateError as refusal:
            return frame_of(refusal_of(query.id, refusal))
        # Counted before it is asked: parts, the last one too, may be delivered meanwhile.
        self._unanswered += 1
        answer = self._session.ask(query, frame)
        if answer is not None:
            self._unanswered -= 1
        elif self._unanswered:
            self._idle.clear()
        return answer

    def go_away(self) -> bytes:
        """The frame that sends the client to another server."""
        response = query_pb2.StreamKvStateResponse(go_away=stopping(self._info).to_proto())
        return response.SerializeToString()

    async def drain(self) -> None:
        """Returns once every query read is answered; refuses those that come later."""
        self._draining = True
        await self._idle.wait()

    async def aclose(self) -> None:
        """Gives up what is pending."""
        await self._session.aclose()

    def _admit(self, query: query_pb2.Query, frame_bytes: int) -> None:
        limits = self._info.limits
        if self._draining:
            raise stopping(self._info)
        if self._unanswered >= limits.queries_in_flight:
            raise RetryLaterError(
                f"{self._unanswered} queries of this stream wait for their answer, as many as "
                f"server {self._info.server_id} takes: put more keys into a query",
                reason=Reason.OVERLOADED,
                retry_after_ms=20,
            )
        check_query(query, limits, frame_bytes)

    def _delivered(self, frame: bytes, last: bool) -> None:
        if last:
            self._unanswered -= 1
            if not self._unanswered:
                self._idle.set()
        self._deliver(frame, last)


def _parse(frame: bytes) -> query_pb2.StreamKvStateRequest:
    try:
        return query_pb2.StreamKvStateRequest.FromString(frame)
    except DecodeError as problem:
        raise InvalidRequestError(f"a frame is not a StreamKvStateRequest: {problem}") from problem
