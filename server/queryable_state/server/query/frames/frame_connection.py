"""Server side of one frame connection: its hello, its queries and its memory."""

from __future__ import annotations

import asyncio
import socket
from typing import TYPE_CHECKING, Any

from queryable_state.server.query.frames import connection_refusals
from queryable_state.server.query.frames.answer_frames import frame_of, refusal_of
from queryable_state.server.query.frames.client_timer import ClientTimer
from queryable_state.server.query.frames.closed_transport import ClosedTransport
from queryable_state.server.query.frames.connection_memory import ConnectionMemory
from queryable_state.server.query.frames.open_streams import stopping
from queryable_state.server.query.frames.stream_session import StreamSession
from queryable_state.server.serving.error_boundary import to_refusal
from queryable_state.server.serving.large_request_queue import LARGE_ANSWER_BYTES, LARGE_BYTES
from queryable_state.v1 import query_pb2
from queryable_state.wire.frames.framed_stream import PREAMBLE, FrameReader, framed

if TYPE_CHECKING:
    from queryable_state.server.query.frames.open_streams import OpenStreams
    from queryable_state.server.query.router import Router, ServiceInfo
    from queryable_state.server.serving.byte_budget import ClientBudgets
    from queryable_state.wire.errors import QueryableStateError

# Frames of one connection that are answered in one turn of the event loop.
_FRAMES_A_TURN = 16

# Unsent bytes above which the transport calls `pause_writing`.
_UNSENT_BYTES = 64 * 1024

# Large answers to one client that may be pending at owners at once.
_MUCH_AT_ONCE = 4


class FrameConnection(asyncio.Protocol):
    """One client connection; an `OpenStream` after its hello.

    It reads only while the client reads its answers, and while unanswered requests fit into the
    memory budget of the process. It is closed if the client does not complete a frame, or reads
    nothing, for `read_timeout_s`.
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
        self._stream_session = StreamSession(router, info, self._deliver, self._refuse)
        self._frames = FrameReader(connection_refusals.HELLO_BYTES)
        self._preamble = b""
        self._greeted = False
        self._loop = asyncio.get_running_loop()
        self._timer = ClientTimer()
        self._progress = (0, 0)
        self._taken_frames = 0
        self._sent_bytes = 0
        self._transport: Any = ClosedTransport()
        self._writable = asyncio.Event()
        self._writable.set()
        self._reading = True
        self._scheduled = False
        self._asks_for_much = False
        self._closed: asyncio.Future[None] = self._loop.create_future()
        self._closing: asyncio.Task[None] | None = None
        self.opened = asyncio.Event()
        """Set once the hello is accepted, or the connection is closed."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self._connections.add(self)
        self._info.traffic.opened_connection()
        silent = connection_refusals.silent()
        self._timer.set(connection_refusals.HELLO_TIMEOUT_S, lambda: self._refuse(silent))
        self._transport.set_write_buffer_limits(high=_UNSENT_BYTES)
        # TCP keep-alive closes the connection of a client whose host has vanished.
        connection = transport.get_extra_info("socket")
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)

    def data_received(self, data: bytes) -> None:
        if self._transport.is_closing():
            return
        self._info.traffic.received_bytes += len(data)
        if len(self._preamble) < len(PREAMBLE):
            data = self._preamble + data
            self._preamble = data[: len(PREAMBLE)]
            if not PREAMBLE.startswith(self._preamble):
                self._refuse(connection_refusals.wrong_preamble(self._preamble))
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
        self._info.traffic.open_connections -= 1
        self.opened.set()
        if not self._closed.done():
            self._closed.set_result(None)
        # Connection, transport and session reference each other. The cycle is broken here, because
        # the garbage collector, which would free it, hardly ever runs.
        self._closing = self._loop.create_task(self._stream_session.aclose())
        self._transport = ClosedTransport()

    def send_away(self) -> None:
        """Tells the client to ask another server."""
        if not self._transport.is_closing():
            self._write(self._stream_session.go_away())

    async def drain(self) -> None:
        """Returns once every received query is answered and its answer is handed to TCP."""
        await self._stream_session.drain()
        await self._writable.wait()

    def end(self) -> None:
        """Tells the client to use another server, and closes the connection."""
        self._refuse(stopping(self._info))

    def abort(self) -> None:
        """Closes the connection at once; its tasks may still run."""
        self._transport.abort()

    async def aclose(self) -> None:
        """Closes the connection at once; returns when none of its tasks runs any more."""
        self.abort()
        await asyncio.shield(self._closed)
        if self._closing is not None:
            await asyncio.shield(self._closing)

    def _answer_frames(self, *, within_turn: bool = False) -> None:
        """Answers received frames, a limited number in one turn."""
        self._scheduled = False
        try:
            for _ in range(_FRAMES_A_TURN):
                if self._transport.is_closing() or not self._takes_answers() or self._has_enough():
                    break
                if self._waits_for_turn(within_turn):
                    break
                frame = connection_refusals.next_frame(self._frames)
                if frame is None:
                    break
                within_turn = False
                self._taken_frames += 1
                answer = self._stream_session.answer(frame) if self._greeted else self._greet(frame)
                if answer is not None:
                    # Sent at once, so that the client can decode it during the next answer.
                    self._write(answer)
            else:
                self._schedule()
        except Exception as failure:  # noqa: BLE001 - the boundary: a defect ends the stream
            self._refuse(to_refusal(failure, f"the answer of server {self._info.server_id}"))
        self._account()

    def _has_enough(self) -> bool:
        """True if enough large answers are pending, so that the next query has to wait.

        An owner sends its answer whether or not this client reads it.
        """
        return self._asks_for_much and self._stream_session.unanswered >= _MUCH_AT_ONCE

    def _waits_for_turn(self, within_turn: bool) -> bool:
        """Queues a large frame, or one after a large answer; returns True if it is queued."""
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

    def _greet(self, frame: bytes) -> bytes:
        hello = self._stream_session.greet(frame)
        self._streams.add(self)
        self._greeted = True
        self.opened.set()
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
            frame = frame_of(refusal_of(query_id, connection_refusals.takes_too_little()))
        self._write(frame)
        # Also set if the large answer was refused.
        self._asks_for_much = much
        self._account()
        if last and self._frames.held_bytes:
            self._schedule()

    def _write(self, frame: bytes) -> None:
        self._sent_bytes += len(frame)
        self._info.traffic.sent_bytes += len(frame)
        self._asks_for_much = len(frame) > LARGE_ANSWER_BYTES
        self._transport.write(framed(frame))

    def _takes_answers(self, more_bytes: int = 0) -> bool:
        """True if the client reads its answers, or there is room for unread ones."""
        if self._writable.is_set():
            return True
        return self._memory.may_wait(self._transport.get_write_buffer_size() + more_bytes)

    def _account(self) -> None:
        """Updates the memory budget; pauses or resumes reading accordingly."""
        if self._closed.done():
            return
        held_bytes = self._frames.held_bytes + self._stream_session.unanswered_bytes
        unsent_bytes = 0 if self._writable.is_set() else self._transport.get_write_buffer_size()
        self._memory.count(held_bytes, unsent_bytes)
        if held_bytes:
            self._watch()
        # A complete frame fits, with what was received after it.
        fits = held_bytes <= 2 * self._info.limits.frame_bytes
        reads = fits and self._memory.has_room(held_bytes, self._wake) and self._takes_answers()
        if reads != self._reading and not self._transport.is_closing():
            self._reading = reads
            if reads:
                self._transport.resume_reading()
            else:
                self._transport.pause_reading()

    def _wake(self) -> None:
        """Resumes reading: there is room for requests again."""
        self._loop.call_soon(self._account)

    def _watch(self) -> None:
        """Starts the timer that detects a client without progress."""
        if not self._timer.is_set and self._greeted and self._is_owed_to():
            self._progress = self._progress_now()
            self._timer.set(self._info.limits.read_timeout_s, self._end_unless_it_goes_on)

    def _is_owed_to(self) -> bool:
        """True if the client has to complete a frame or to read answers."""
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
            self._refuse(connection_refusals.unfinished(seconds))
            return
        connection_refusals.log_unread(seconds)
        self._transport.abort()

    def _refuse(self, error: QueryableStateError) -> None:
        """Sends a refusal, and closes the connection once it is sent."""
        if self._transport.is_closing():
            return
        connection_refusals.log_refusal(error)
        self._info.traffic.refused_connections[error.reason_name] += 1
        refusal = query_pb2.ServerFrame(error=error.to_proto())
        self._transport.write(framed(refusal.SerializeToString()))
        self._frames.clear()
        self._transport.close()
        self._timer.set(connection_refusals.HELLO_TIMEOUT_S, self._transport.abort)
