"""One stream of queries: hello, then queries in and answers out."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Any

import grpc
import grpc.aio
from google.protobuf.message import DecodeError

from queryable_state.server.query.answer_frames import refusal_of
from queryable_state.server.query.checks import check_query
from queryable_state.v1 import query_pb2
from queryable_state.wire.errors import (
    InvalidRequestError,
    QueryableStateError,
    Reason,
    RetryLaterError,
)
from queryable_state.wire.query_stream import PROTOCOL_VERSION

if TYPE_CHECKING:
    from queryable_state.server.query.router import Router, ServiceInfo


# Answers a client has not taken. Beyond it nothing more is read from the client, so that one
# that asks without reading fills its own buffers and not this process.
_MOST_UNSENT_BYTES = 8 * 1024 * 1024


class AnswerStream:
    """Reads queries one after the other; writes what is answered at once, then what comes later.

    gRPC takes one write at a time: `_writing` says that one is under way, and
    whoever ends it sees to the outbox.
    """

    def __init__(
        self, context: grpc.aio.ServicerContext[Any, Any], router: Router, info: ServiceInfo
    ) -> None:
        self._context = context
        self._info = info
        self._session = router.session(self._deliver)
        self._outbox: deque[bytes] = deque()
        self._unsent_bytes = 0
        self._writing = False
        self._writer: asyncio.Task[None] | None = None
        self._unanswered = 0
        self._idle = asyncio.Event()
        self._idle.set()
        self._draining = False
        self._ended = False
        self._reader: asyncio.Task[Any] | None = None

    async def run(self) -> None:
        """Serves until the client ends its side; raises what refuses the whole stream."""
        read = self._context.read
        self._reader = asyncio.current_task()
        try:
            await self._greet()
            while (frame := await read()) is not grpc.aio.EOF:
                answer = self._answer(frame)
                if answer is not None:
                    await self._write(answer)
                if self._unsent_bytes > _MOST_UNSENT_BYTES:
                    await self._written()
            # Who ends its side after its last query still gets every answer.
            await self.drain()
        except asyncio.CancelledError:
            if self._ended and self._reader is not None:
                self._reader.uncancel()
                raise self._stopping() from None
            raise
        finally:
            self._reader = None
            if self._writer is not None:
                self._writer.cancel()
            await self._session.aclose()

    async def drain(self) -> None:
        """Returns once every query read is answered; refuses those that come later."""
        self._draining = True
        await self._idle.wait()
        await self._written()

    def end(self) -> None:
        """Ends the stream from this side, where the client has not: it goes on elsewhere."""
        if self._reader is not None and not self._ended:
            self._ended = True
            self._reader.cancel()

    async def _written(self) -> None:
        """Returns once the outbox is written."""
        while self._writer is not None and not self._writer.done():
            await asyncio.wait([self._writer])

    async def _greet(self) -> None:
        frame = await self._context.read()
        request = (
            query_pb2.StreamKvStateRequest()
            if frame is grpc.aio.EOF
            else _parse(query_pb2.StreamKvStateRequest(), frame)
        )
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
        )
        await self._context.write(query_pb2.StreamKvStateResponse(hello=hello).SerializeToString())

    def _answer(self, frame: bytes) -> bytes | None:
        """The whole answer to a frame, or None where it comes later."""
        request = _parse(query_pb2.StreamKvStateRequest(), frame)
        query = request.query
        try:
            if request.WhichOneof("frame") != "query":
                raise InvalidRequestError("only the first frame of a stream may be a hello")
            self._admit(query, len(frame))
        except QueryableStateError as refusal:
            return refusal_of(query.id, refusal)
        # Counted before it is asked: parts, the last one too, may be delivered meanwhile.
        self._unanswered += 1
        answer = self._session.ask(query, frame)
        if answer is not None:
            self._unanswered -= 1
        elif self._unanswered:
            self._idle.clear()
        return answer

    def _admit(self, query: query_pb2.Query, frame_bytes: int) -> None:
        limits = self._info.limits
        if self._draining:
            raise self._stopping()
        if self._unanswered >= limits.queries_in_flight:
            raise RetryLaterError(
                f"{self._unanswered} queries of this stream wait for their answer, as many as "
                f"server {self._info.server_id} takes: put more keys into a query",
                reason=Reason.OVERLOADED,
                retry_after_ms=20,
            )
        check_query(query, limits, frame_bytes)

    def _stopping(self) -> RetryLaterError:
        return RetryLaterError(
            f"server {self._info.server_id} is stopping: ask another", retry_after_ms=200
        )

    def _deliver(self, frame: bytes, last: bool) -> None:
        if last:
            self._unanswered -= 1
            if not self._unanswered:
                self._idle.set()
        self._enqueue(frame)
        if not self._writing:
            self._start_writer()

    async def _write(self, frame: bytes) -> None:
        if self._writing:
            self._enqueue(frame)
            return
        self._writing = True
        try:
            await self._context.write(frame)
        finally:
            self._writing = False
        if self._outbox:
            self._start_writer()

    def _enqueue(self, frame: bytes) -> None:
        self._outbox.append(frame)
        self._unsent_bytes += len(frame)

    def _start_writer(self) -> None:
        self._writing = True
        self._writer = asyncio.create_task(self._write_outbox())

    async def _write_outbox(self) -> None:
        try:
            while self._outbox:
                frame = self._outbox.popleft()
                await self._context.write(frame)
                self._unsent_bytes -= len(frame)
        except (grpc.aio.UsageError, asyncio.InvalidStateError):
            # The call ended beneath the write; its reader learns it, too.
            self._outbox.clear()
            self._unsent_bytes = 0
        finally:
            self._writing = False


def _parse(message: query_pb2.StreamKvStateRequest, frame: bytes) -> query_pb2.StreamKvStateRequest:
    try:
        message.ParseFromString(frame)
    except DecodeError as problem:
        raise InvalidRequestError(f"a frame is not a StreamKvStateRequest: {problem}") from problem
    return message
