"""One connection of frames: its hello, its queries, and the memory it may take."""

from __future__ import annotations

import asyncio
import socket
from typing import TYPE_CHECKING, Any

from queryable_state.server.query.frames import connection_refusals as refusals
from queryable_state.server.query.frames.answer_frames import frame_of, refusal_of
from queryable_state.server.query.frames.client_timer import ClientTimer
from queryable_state.server.query.frames.closed_transport import ClosedTransport
from queryable_state.server.query.frames.connection_memory import ConnectionMemory
from queryable_state.server.query.frames.open_streams import stopping
from queryable_state.server.query.frames.stream_session import StreamSession
from queryable_state.server.serving.error_boundary import to_refusal
from queryable_state.server.serving.large_request_queue import LARGE_ANSWER_BYTES, LARGE_BYTES
from queryable_state.v1 import query_pb2
from queryable_state.wire.errors import CorruptDataError, InvalidRequestError, QueryableStateError
from queryable_state.wire.frames.framed_stream import PREAMBLE, FrameReader, framed

if TYPE_CHECKING:
    from queryable_state.server.query.frames.open_streams import OpenStreams
    from queryable_state.server.query.router import Router, ServiceInfo
    from queryable_state.server.serving.byte_budget import ClientBudgets

# Frames of one connection that are answered before others get their turn.
_FRAMES_A_TURN = 16

# The transport tells when more than so much of its answers waits to be taken.
_UNSENT_BYTES = 64 * 1024

# Large answers to one client that may be on their way from owners.
_MUCH_AT_ONCE = 4


class FrameConnection(asyncio.Protocol):
    """One client; an `OpenStream` once it has said hello.

    Reads only while the client takes its answers, and while what it has sent and is not answered
    has room in the memory of the process. It is hung up on where it leaves a frame unfinished, or
    takes nothing, for `read_timeout_s`.
    """

    def __init__(
        self,
        router: Router,
        info: ServiceInfo,
        streams: OpenStreams,
        budgets: ClientBudgets,
        connections: set[FrameConnection],
    ) -> None:
        self._info = info
        self._streams = streams
        self._large_requests = budgets.large_requests
        self._memory = ConnectionMemory(budgets)
        self._connections = connections
        self._stream_session = StreamSession(router, info, self._deliver)
        self._frames = FrameReader(refusals.HELLO_BYTES)
        self._preamble = b""
        self._greeted = False
        self._loop = asyncio.get_running_loop()
        self._timer = ClientTimer()
        self._timer.set(refusals.HELLO_TIMEOUT_S, self._end_silent)
        self._progress = (0, 0)
        self._taken_frames = 0
        self._sent_bytes = 0
        self._transport: Any = None
        self._writable = asyncio.Event()
        self._writable.set()
        self._reading = True
        self._scheduled = False
        self._asks_for_much = False
        self._closed: asyncio.Future[None] = self._loop.create_future()
        self._closing: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self._connections.add(self)
        self._transport.set_write_buffer_limits(high=_UNSENT_BYTES)
        # A client whose host vanished is let go of, some day.
        connection = transport.get_extra_info("socket")
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        if len(self._connections) > self._info.limits.connections:
            self._refuse(refusals.too_many(self._info.server_id, len(self._connections) - 1))

    def data_received(self, data: bytes) -> None:
        if self._transport.is_closing():
            return
        if len(self._preamble) < len(PREAMBLE):
            data = self._preamble + data
            self._preamble = data[: len(PREAMBLE)]
            if not PREAMBLE.startswith(self._preamble):
                self._refuse(InvalidRequestError("this port takes frames of queries: use gRPC"))
                return
            data = data[len(PREAMBLE) :]
        self._frames.feed(data)
        if not self._scheduled:
            self._answer_frames()
        else:
            self._account()

    def pause_writing(self) -> None:
        self._writable.clear()
        self._account()
        self._watch()

    def resume_writing(self) -> None:
        self._writable.set()
        self._account()
        self._schedule()

    def connection_lost(self, exc: Exception | None) -> None:
        self._timer.clear()
        self._frames.clear()
        self._memory.release(self._wake)
        self._writable.set()
        self._connections.discard(self)
        self._streams.discard(self)
        if not self._closed.done():
            self._closed.set_result(None)
        # Whoever holds the one of connection, transport and dialog must not hold the others: what
        # stands in a cycle waits for the garbage collector, which hardly ever comes.
        self._closing = self._loop.create_task(self._stream_session.aclose())
        self._transport = ClosedTransport()

    def send_away(self) -> None:
        """Tells the client to ask another server."""
        if not self._transport.is_closing():
            self._write(self._stream_session.go_away())

    async def drain(self) -> None:
        """Returns once every query read is answered, and the answers are on their way."""
        await self._stream_session.drain()
        await self._writable.wait()

    def end(self) -> None:
        """Tells the client that it goes on elsewhere, and hangs up."""
        self._refuse(stopping(self._info))

    async def aclose(self) -> None:
        """Hangs up at once, and returns once nothing of the connection runs."""
        self._transport.abort()
        await asyncio.shield(self._closed)
        if self._closing is not None:
            await asyncio.shield(self._closing)

    def _answer_frames(self, *, within_turn: bool = False) -> None:
        """Answers what has arrived, a number of frames at a time."""
        self._scheduled = False
        try:
            for _ in range(_FRAMES_A_TURN):
                if self._transport.is_closing() or not self._takes_answers() or self._has_enough():
                    break
                if self._waits_for_turn(within_turn):
                    break
                frame = self._take()
                if frame is None:
                    break
                within_turn = False
                self._taken_frames += 1
                answer = self._stream_session.answer(frame) if self._greeted else self._greet(frame)
                if answer is not None:
                    # Sent at once, so that who asked goes on while the next one is answered.
                    self._write(answer)
            else:
                self._schedule()
        except Exception as failure:  # noqa: BLE001 - the boundary: a defect ends the stream
            self._refuse(to_refusal(failure, f"the answer of server {self._info.server_id}"))
        self._account()

    def _has_enough(self) -> bool:
        """Whether the client is to be given large answers before it may ask for others.

        An owner answers what it was asked, read or not.
        """
        return self._asks_for_much and self._stream_session.unanswered >= _MUCH_AT_ONCE

    def _waits_for_turn(self, within_turn: bool) -> bool:
        """Has a large frame, or one after a large answer, wait until others had theirs."""
        if within_turn or not self._frames.held_bytes:
            return False
        if self._frames.held_bytes <= LARGE_BYTES and not self._asks_for_much:
            return False
        if not self._scheduled:
            self._scheduled = True
            self._large_requests.run(self._take_turn)
        return True

    def _take_turn(self) -> None:
        self._answer_frames(within_turn=True)

    def _take(self) -> bytes | None:
        """The next whole frame; None: there is none yet."""
        try:
            return self._frames.take()
        except CorruptDataError as problem:
            raise refusals.too_long(problem) from None

    def _greet(self, frame: bytes) -> bytes:
        hello = self._stream_session.greet(frame)
        self._streams.add(self)
        self._greeted = True
        self._frames.most_bytes = self._info.limits.frame_bytes
        self._timer.clear()
        return hello

    def _schedule(self) -> None:
        if not self._scheduled and not self._closed.done():
            self._scheduled = True
            self._loop.call_soon(self._answer_frames)

    def _deliver(self, query_id: int, frame: bytes, last: bool) -> None:
        if self._transport.is_closing():
            return
        much = len(frame) > LARGE_ANSWER_BYTES
        if not self._takes_answers(len(frame)):
            frame = frame_of(refusal_of(query_id, refusals.takes_too_little()))
        self._write(frame)
        # Also where it was not given them.
        self._asks_for_much = much
        self._account()
        if last and self._frames.held_bytes:
            self._schedule()

    def _write(self, frame: bytes) -> None:
        self._sent_bytes += len(frame)
        self._asks_for_much = len(frame) > LARGE_ANSWER_BYTES
        self._transport.write(framed(frame))

    def _takes_answers(self, more_bytes: int = 0) -> bool:
        """Whether the client takes what it is sent, as far as there is no room to wait for it."""
        if self._writable.is_set():
            return True
        return self._memory.may_wait(self._transport.get_write_buffer_size() + more_bytes)

    def _account(self) -> None:
        """Counts what is held for the client, and reads on where there is room for more."""
        if self._closed.done():
            return
        held_bytes = self._frames.held_bytes + self._stream_session.unanswered_bytes
        unsent_bytes = 0 if self._writable.is_set() else self._transport.get_write_buffer_size()
        self._memory.count(held_bytes, unsent_bytes)
        if held_bytes:
            self._watch()
        # A whole frame fits, and what has arrived behind it.
        fits = held_bytes <= 2 * self._info.limits.frame_bytes
        reads = fits and self._memory.has_room(held_bytes, self._wake) and self._takes_answers()
        if reads != self._reading and not self._transport.is_closing():
            self._reading = reads
            if reads:
                self._transport.resume_reading()
            else:
                self._transport.pause_reading()

    def _wake(self) -> None:
        """There is room for requests again."""
        self._loop.call_soon(self._account)

    def _watch(self) -> None:
        """Looks after a while whether the client went on with what it has begun."""
        if not self._timer.is_set and self._greeted and self._is_owed_to():
            self._progress = self._progress_now()
            self._timer.set(self._info.limits.read_timeout_s, self._end_unless_it_goes_on)

    def _is_owed_to(self) -> bool:
        """Whether the client has to go on: with a frame, or with taking answers."""
        return self._frames.is_partial or not self._writable.is_set()

    def _progress_now(self) -> tuple[int, int]:
        return self._taken_frames, self._sent_bytes - self._transport.get_write_buffer_size()

    def _end_unless_it_goes_on(self) -> None:
        if self._transport.is_closing() or not self._is_owed_to():
            return
        if self._progress_now() != self._progress:
            self._watch()
            return
        seconds = self._info.limits.read_timeout_s
        if self._writable.is_set():
            self._refuse(refusals.unfinished(seconds))
            return
        refusals.log_unread(seconds)
        self._transport.abort()

    def _end_silent(self) -> None:
        self._refuse(refusals.silent())

    def _refuse(self, error: QueryableStateError) -> None:
        """Says why, and hangs up once that is sent."""
        if self._transport.is_closing():
            return
        refusals.log_refusal(error)
        refusal = query_pb2.ServerFrame(error=error.to_proto())
        self._transport.write(framed(refusal.SerializeToString()))
        self._frames.clear()
        self._transport.close()
        # A client that takes nothing cannot keep the connection, either.
        self._timer.set(refusals.HELLO_TIMEOUT_S, self._transport.abort)
