"""One stream of queries as a gRPC call."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Any

import grpc
import grpc.aio

from queryable_state.server.query.frames.open_streams import stopping
from queryable_state.server.query.frames.stream_session import StreamSession
from queryable_state.server.serving.large_request_queue import LARGE_ANSWER_BYTES, LARGE_BYTES

if TYPE_CHECKING:
    from queryable_state.server.query.router import Router, ServiceInfo
    from queryable_state.server.serving.large_request_queue import LargeRequestQueue


# Answers a client has not taken. Beyond it nothing more is read from the client, so that one
# that asks without reading fills its own buffers and not this process.
MOST_UNSENT_BYTES = 8 * 1024 * 1024


class AnswerStream:
    """Reads queries one after the other; writes what is answered at once, then what comes later.

    gRPC takes one write at a time: `_writing` says that one is under way, and
    whoever ends it sees to the outbox.
    """

    def __init__(
        self,
        context: grpc.aio.ServicerContext[Any, Any],
        router: Router,
        info: ServiceInfo,
        large_requests: LargeRequestQueue,
        *,
        frame_port: int = 0,
    ) -> None:
        self._context = context
        self._info = info
        self._large_requests = large_requests
        self._stream_session = StreamSession(router, info, self._deliver, frame_port=frame_port)
        self._outbox: deque[bytes] = deque()
        self._unsent_bytes = 0
        self._writing = False
        self._writer: asyncio.Task[None] | None = None
        self._greeted = False
        self._ended = False
        self._reader: asyncio.Task[Any] | None = None

    async def run(self) -> None:
        """Serves until the client ends its side; raises what refuses the whole stream."""
        read, stream_session = self._context.read, self._stream_session
        self._reader = asyncio.current_task()
        try:
            first = await read()
            await self._write(stream_session.greet(b"" if first is grpc.aio.EOF else first))
            self._greeted = True
            asks_for_much = False
            while (frame := await read()) is not grpc.aio.EOF:
                if asks_for_much or len(frame) > LARGE_BYTES:
                    await self._large_requests.next()
                answer = stream_session.answer(frame)
                if answer is not None:
                    asks_for_much = len(answer) > LARGE_ANSWER_BYTES
                    await self._write(answer)
                if self._unsent_bytes > MOST_UNSENT_BYTES:
                    await self._written()
            # Who ends its side after its last query still gets every answer.
            await self.drain()
        except asyncio.CancelledError:
            if self._ended and self._reader is not None:
                self._reader.uncancel()
                raise stopping(self._info) from None
            raise
        finally:
            self._reader = None
            if self._writer is not None:
                self._writer.cancel()
            await stream_session.aclose()

    def send_away(self) -> None:
        """Tells the client to ask another server, unless its hello is still to be answered."""
        if self._greeted:
            self._deliver(0, self._stream_session.go_away(), False)

    async def drain(self) -> None:
        """Returns once every query read is answered; refuses those that come later."""
        await self._stream_session.drain()
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

    def _deliver(self, query_id: int, frame: bytes, last: bool) -> None:
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
