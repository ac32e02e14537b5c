"""One frame connection on the server: its hello, its queries, their answers and its memory."""

from __future__ import annotations

import asyncio
import logging
import socket
from struct import Struct
from time import perf_counter
from typing import TYPE_CHECKING, Any

from queryable_state.server.metrics.port_traffic import SAMPLED
from queryable_state.server.metrics.query_counts import UNKNOWN_KIND
from queryable_state.server.process.rate_limited_log import RateLimitedLog
from queryable_state.server.query.admission import admission, fields_of_keys, parser
from queryable_state.server.query.frames.answer_frames import frame_of, refusal_of
from queryable_state.server.query.frames.open_streams import stopping
from queryable_state.server.serving.byte_budget import ConnectionMemory
from queryable_state.server.serving.error_boundary import to_refusal
from queryable_state.server.serving.large_request_queue import LARGE_ANSWER_BYTES, LARGE_BYTES
from queryable_state.v1 import query_pb2
from queryable_state.wire.errors import (
    CorruptDataError,
    InvalidRequestError,
    LimitExceededError,
    QueryableStateError,
    QueryTimeoutError,
    Reason,
    RetryLaterError,
    shown,
)
from queryable_state.wire.frames.framed_stream import PREAMBLE, FrameReader, framed
from queryable_state.wire.frames.stream_hello import common_version, no_common_version

if TYPE_CHECKING:
    from collections.abc import Callable

    from queryable_state.server.query.frames.open_streams import OpenStreams
    from queryable_state.server.query.router import QuerySession, Router, ServiceInfo
    from queryable_state.server.serving.byte_budget import ClientBudgets

HELLO_TIMEOUT_S = 10.0
_HELLO_BYTES = 4096

# Frames of one connection that are answered in one turn of the event loop.
_FRAMES_A_TURN = 16

# Unsent bytes above which the transport calls `pause_writing`.
_UNSENT_BYTES = 64 * 1024

# Large answers to one client that may be pending at owners at once.
_MUCH_AT_ONCE = 4

_TLS_HELLO = b"\x16\x03"

# The length before a frame, as `framed` and `FrameReader` write and read it.
_LENGTH = Struct(">I")
_pack_length, _unpack_length, _LENGTH_BYTES = _LENGTH.pack, _LENGTH.unpack_from, _LENGTH.size

_log = RateLimitedLog(logging.getLogger(__name__))


class FrameConnection(asyncio.Protocol):
    """One client connection; an `OpenStream` after its hello.

    A query that is the whole of what has arrived is answered in the same call. Otherwise frames
    are answered a limited number a turn. The connection reads only while the client reads its
    answers, and while unanswered requests fit into the memory budget of the process. It is closed
    if the client does not complete a frame, or reads nothing, for `read_timeout_s`.
    """

    def __init__(
        self,
        router: Router,
        info: ServiceInfo,
        streams: OpenStreams,
        budgets: ClientBudgets,
        connections: set[FrameConnection],
    ) -> None:
        limits = info.limits
        self._router = router
        self._info = info
        self._traffic = info.traffic
        self._streams = streams
        self._connections = connections
        self._loop = asyncio.get_running_loop()
        self._transport: Any = _ClosedTransport()
        self._closed: asyncio.Future[None] = self._loop.create_future()
        self._closing: asyncio.Task[None] | None = None
        self.opened = asyncio.Event()
        """Set once the hello is accepted, or the connection is closed."""

        # Received frames.
        self._preamble = b""
        self._frames = FrameReader(_HELLO_BYTES)
        # One field of the frame is the query, which holds the keys.
        self._parse = parser(
            query_pb2.ClientFrame.FromString,
            "ClientFrame",
            fields_of_keys(limits),
            limits,
            within=query_pb2.ClientFrame.QUERY_FIELD_NUMBER,
        )
        self._taken_frames = 0
        self._is_scheduled = False
        self._is_free = False
        """True if a whole frame may be answered as it arrives: nothing before it waits, and the
        client reads its answers."""

        # Queries.
        self._session: QuerySession | None = None
        """None before the hello, and once it is closed."""
        self._admit = admission(limits)
        self._unanswered: dict[int, int] = {}
        """Bytes of each unanswered query, by id."""
        self._unanswered_bytes = 0
        self._most_in_flight = limits.queries_in_flight
        self._is_draining = False
        self._idle = asyncio.Event()
        """Set unless a query is answered later."""
        self._idle.set()
        self._state_id = 0
        self._counts = self._traffic.frame_queries.of(0)
        """Queries to `_state_id`, the state of the newest query, by kind of read."""
        self._begun_s: dict[int, float] = {}
        """Arrival of unanswered queries that are timed, by id."""

        # Answers, and what the client owes.
        self._sent_bytes = 0
        self._asks_for_much = False
        """True if the newest answer was large."""
        self._writable = asyncio.Event()
        self._writable.set()
        self._is_reading = True
        self._large_requests = budgets.large_requests
        self._memory = ConnectionMemory(budgets)
        self._timer: asyncio.TimerHandle | None = None
        """The single timer: for the hello, then for reads, then for the close."""
        self._progress = (0, 0)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self._connections.add(self)
        self._traffic.opened_connection()
        self._set_timer(HELLO_TIMEOUT_S, self._end_silent)
        self._transport.set_write_buffer_limits(high=_UNSENT_BYTES)
        # TCP keep-alive closes the connection of a client whose host has vanished.
        connection = transport.get_extra_info("socket")
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)

    def data_received(self, data: bytes) -> None:
        size = len(data)
        self._traffic.received_bytes += size
        if (
            self._is_free
            and _LENGTH_BYTES < size <= LARGE_BYTES
            and _unpack_length(data)[0] == size - _LENGTH_BYTES
        ):
            try:
                answer = self.answer(data[_LENGTH_BYTES:])
            except Exception as failure:  # noqa: BLE001 - the boundary: a defect ends the stream
                self._refuse_failed(failure)
                return
            self._taken_frames += 1
            if answer is None:
                self._account()
            else:
                self._write(answer)
            return
        if self._transport.is_closing():
            return
        if len(self._preamble) < len(PREAMBLE):
            data = self._preamble + data
            self._preamble = data[: len(PREAMBLE)]
            if not PREAMBLE.startswith(self._preamble):
                self._refuse(_wrong_preamble(self._preamble))
                return
            data = data[len(PREAMBLE) :]
        self._frames.feed(data)
        if not self._is_scheduled:
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
        self._is_free = False
        self._clear_timer()
        self._frames.clear()
        self._memory.release(self._wake)
        self._writable.set()
        self._connections.discard(self)
        self._streams.discard(self)
        self._traffic.open_connections -= 1
        self.opened.set()
        if not self._closed.done():
            self._closed.set_result(None)
        # Connection, transport and session reference each other. The cycle is broken here, because
        # the garbage collector, which would free it, hardly ever runs.
        self._closing = self._loop.create_task(self._close_session())
        self._transport = _ClosedTransport()

    def send_away(self) -> None:
        """Tells the client to ask another server."""
        if not self._transport.is_closing():
            response = query_pb2.ServerFrame(go_away=stopping(self._info).to_proto())
            self._write(response.SerializeToString())

    async def drain(self) -> None:
        """Returns once every received query is answered and its answer is handed to TCP; refuses
        later ones."""
        self._is_draining = True
        await self._idle.wait()
        await self._writable.wait()

    def end(self) -> None:
        """Tells the client to use another server, and closes the connection."""
        self._refuse(stopping(self._info))

    def abort(self) -> None:
        """Closes the connection at once; its tasks may still run."""
        self._is_free = False
        self._transport.abort()

    async def aclose(self) -> None:
        """Closes the connection at once; returns when none of its tasks runs any more."""
        self.abort()
        await asyncio.shield(self._closed)
        if self._closing is not None:
            await asyncio.shield(self._closing)

    def _answer_frames(self, *, within_turn: bool = False) -> None:
        """Answers received frames, a limited number in one turn."""
        self._is_scheduled = False
        frames, transport = self._frames, self._transport
        try:
            for _ in range(_FRAMES_A_TURN):
                if transport.is_closing() or self._has_to_wait(within_turn):
                    break
                frame = self._next_frame()
                if frame is None:
                    break
                within_turn = False
                self._taken_frames += 1
                answer = self.answer(frame) if self._session is not None else self.greet(frame)
                if answer is not None:
                    # Sent at once, so that the client can decode it during the next answer.
                    self._write(answer)
                if not frames.held_bytes:
                    break
            else:
                self._schedule()
        except Exception as failure:  # noqa: BLE001 - the boundary: a defect ends the stream
            self._refuse_failed(failure)
        self._account()

    def _has_to_wait(self, within_turn: bool) -> bool:
        """True if the next frame may not be answered now; queues a large one.

        A frame waits while the client reads no answers, and while enough large answers are
        pending: an owner sends its answer whether or not this client reads it. A large frame, or
        one after a large answer, waits for its turn among those of all connections.
        """
        if not self._writable.is_set() and not self._takes_answers():
            return True
        if self._asks_for_much:
            if len(self._unanswered) >= _MUCH_AT_ONCE:
                return True
        elif self._frames.held_bytes <= LARGE_BYTES:
            return False
        if within_turn or not self._frames.held_bytes:
            return False
        if not self._is_scheduled:
            self._is_scheduled = True
            self._large_requests.run(self._take_turn)
        return True

    def _take_turn(self) -> None:
        self._answer_frames(within_turn=True)

    def _schedule(self) -> None:
        if not self._is_scheduled and not self._closed.done():
            self._is_scheduled = True
            self._loop.call_soon(self._answer_frames)

    def _next_frame(self) -> bytes | None:
        """Returns the next complete frame, or None; raises `LimitExceededError` if it is too
        long."""
        try:
            return self._frames.take()
        except CorruptDataError as problem:
            raise LimitExceededError(
                f"{problem.message} (spark.queryable_state.request_bytes; before the hello "
                f"{_HELLO_BYTES:,} bytes)"
            ) from None

    def greet(self, frame: bytes) -> bytes:
        """Returns the answer to the first frame."""
        request = self._parse(frame)
        if request.WhichOneof("frame") != "hello":
            raise InvalidRequestError("the first frame of a connection must be a hello")
        offered, info = request.hello, self._info
        version = common_version(offered.min_version, offered.max_version)
        if not version:
            raise no_common_version(
                f"server {info.server_id}",
                f"client {shown(offered.client)!r}",
                offered.min_version,
                offered.max_version,
            )
        self._session = self._router.session(self._deliver, offered.authorization)
        self._session.on_refused = self._refuse
        self._streams.add(self)
        self.opened.set()
        self._frames.most_bytes = info.limits.frame_bytes
        self._clear_timer()
        hello = query_pb2.ServerHello(
            protocol_version=version,
            server_id=info.server_id,
            role=info.role,
            limits=info.limits.to_proto(),
        )
        return query_pb2.ServerFrame(hello=hello).SerializeToString()

    def answer(self, frame: bytes) -> bytes | None:
        """Returns the answer to a frame; None if `_deliver` gets it later.

        A refusal of the whole connection is raised.
        """
        request = self._parse(frame)
        query, session = request.query, self._session
        if session is None:
            raise stopping(self._info)
        query_id, size, unanswered = query.id, len(frame), self._unanswered
        # Held until the end of the call: protobuf makes the list anew for each access otherwise.
        keys = query.keys
        try:
            if not request.HasField("query"):
                raise InvalidRequestError("only the first frame of a connection may be a hello")
            if unanswered or self._is_draining:
                self._check_unanswered(query_id)
            self._admit(query, keys, size)
        except QueryableStateError as refusal:
            self._traffic.refused[refusal.reason_name] += 1
            return frame_of(refusal_of(query_id, refusal))
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
            self._begun_s[query_id] = self._traffic.sampled(query)
        # Counted before the router is called, which may deliver all parts at once.
        unanswered[query_id] = size
        self._unanswered_bytes += size
        answer = session.ask(query, frame)
        if answer is None:
            if unanswered:
                self._idle.clear()
            return None
        del unanswered[query_id]
        self._unanswered_bytes -= size
        if self._begun_s:
            self._count_duration(query_id)
        return answer

    def _check_unanswered(self, query_id: int) -> None:
        """Raises if a query may not be asked beside those that are unanswered."""
        unanswered = self._unanswered
        if self._is_draining:
            raise stopping(self._info)
        if query_id in unanswered:
            raise InvalidRequestError(f"query id {query_id} is in use by an unanswered query")
        if len(unanswered) >= self._most_in_flight:
            raise RetryLaterError(
                f"{len(unanswered)} queries of this connection are unanswered, which is the "
                f"limit of server {self._info.server_id}: put more keys into a query",
                reason=Reason.OVERLOADED,
                retry_after_ms=20,
            )

    def _count_duration(self, query_id: int) -> None:
        begun_s = self._begun_s.pop(query_id, None)
        if begun_s is not None:
            self._traffic.frame_durations.add(perf_counter() - begun_s)

    def _deliver(self, query_id: int, frame: bytes, last: bool) -> None:
        """Sends an answer, or a part of one, that the session did not return at once."""
        if last:
            self._unanswered_bytes -= self._unanswered.pop(query_id, 0)
            self._count_duration(query_id)
            if not self._unanswered:
                self._idle.set()
        if self._transport.is_closing():
            return
        much = len(frame) > LARGE_ANSWER_BYTES
        if not self._takes_answers(len(frame)):
            frame = frame_of(refusal_of(query_id, _takes_too_little()))
        self._write(frame)
        # Also set if the large answer was refused.
        self._asks_for_much = much
        self._account()
        if last and self._frames.held_bytes:
            self._schedule()

    def _write(self, frame: bytes) -> None:
        size = len(frame)
        self._sent_bytes += size
        self._traffic.sent_bytes += size
        self._asks_for_much = size > LARGE_ANSWER_BYTES
        if self._asks_for_much:
            self._is_free = False
        self._transport.write(_pack_length(size) + frame)

    def _takes_answers(self, more_bytes: int = 0) -> bool:
        """True if the client reads its answers, or there is room for unread ones."""
        if self._writable.is_set():
            return True
        return self._memory.may_wait(self._transport.get_write_buffer_size() + more_bytes)

    def _account(self) -> None:
        """Updates the memory budget; pauses or resumes reading accordingly."""
        if self._closed.done():
            return
        is_writable, received_bytes = self._writable.is_set(), self._frames.held_bytes
        held_bytes = received_bytes + self._unanswered_bytes
        unsent_bytes = 0 if is_writable else self._transport.get_write_buffer_size()
        self._memory.count(held_bytes, unsent_bytes)
        if held_bytes:
            self._watch()
        # A complete frame fits, with what was received after it.
        fits = held_bytes <= 2 * self._info.limits.frame_bytes
        reads = fits and self._memory.has_room(held_bytes, self._wake) and self._takes_answers()
        is_open = not self._transport.is_closing()
        self._is_free = (
            is_open
            and is_writable
            and not received_bytes
            and not self._asks_for_much
            and self._session is not None
        )
        if reads != self._is_reading and is_open:
            self._is_reading = reads
            if reads:
                self._transport.resume_reading()
            else:
                self._transport.pause_reading()

    def _wake(self) -> None:
        """Resumes reading: there is room for requests again."""
        self._loop.call_soon(self._account)

    def _watch(self) -> None:
        """Starts the timer that detects a client without progress."""
        if self._timer is None and self._session is not None and self._is_owed_to():
            self._progress = self._progress_now()
            self._set_timer(self._info.limits.read_timeout_s, self._end_unless_it_goes_on)

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
            self._refuse(QueryTimeoutError(f"a frame was not completed within {seconds:g} s"))
            return
        _log.write(
            logging.WARNING,
            "unread answers",
            "closing a frame connection: its client has read nothing for %g s",
            seconds,
        )
        self.abort()

    def _end_silent(self) -> None:
        self._refuse(QueryTimeoutError(f"no hello was received within {HELLO_TIMEOUT_S:g} s"))

    def _set_timer(self, after_s: float, call: Callable[[], object]) -> None:
        """Schedules a callback; replaces the scheduled one.

        It is cleared at the end, because it holds a reference to the connection.
        """
        self._clear_timer()
        self._timer = self._loop.call_later(after_s, self._timer_due, call)

    def _clear_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _timer_due(self, call: Callable[[], object]) -> None:
        self._timer = None
        call()

    def _refuse_failed(self, failure: Exception) -> None:
        self._refuse(to_refusal(failure, f"the answer of server {self._info.server_id}"))

    def _refuse(self, error: QueryableStateError) -> None:
        """Sends a refusal, and closes the connection once it is sent."""
        self._is_free = False
        if self._transport.is_closing():
            return
        if isinstance(error, InvalidRequestError | QueryTimeoutError):
            _log.write(
                logging.WARNING,
                error.reason_name,
                "refusing a frame connection: %s",
                error.message,
            )
        self._traffic.refused_connections[error.reason_name] += 1
        refusal = query_pb2.ServerFrame(error=error.to_proto())
        self._transport.write(framed(refusal.SerializeToString()))
        self._frames.clear()
        self._transport.close()
        self._set_timer(HELLO_TIMEOUT_S, self._transport.abort)

    async def _close_session(self) -> None:
        """Cancels pending queries, and drops every reference to the connection."""
        session, self._session = self._session, None
        if session is not None:
            session.on_refused = None
            await session.aclose()
        self._unanswered.clear()
        self._begun_s.clear()
        self._unanswered_bytes = 0


class _ClosedTransport:
    """Replaces the transport of a closed connection, so that the real one can be freed."""

    def is_closing(self) -> bool:
        """Returns True, as a closed transport of asyncio does."""
        return True

    def abort(self) -> None:
        """Does nothing: the connection is closed."""

    def get_write_buffer_size(self) -> int:
        """Returns 0: nothing is buffered."""
        return 0


def _wrong_preamble(received: bytes) -> InvalidRequestError:
    """Returns the refusal of a client that speaks another protocol."""
    if received.startswith(_TLS_HELLO):
        return InvalidRequestError(
            "this frame port has no TLS: connect without, or set spark.queryable_state."
            "tls_certificate (--tls-certificate) for the server",
            reason=Reason.PROTOCOL_MISMATCH,
        )
    return InvalidRequestError("a frame port takes no gRPC: use the query port")


def _takes_too_little() -> RetryLaterError:
    """Returns the refusal that replaces an answer for which there is no room."""
    return RetryLaterError(
        "the client has not read earlier answers: read them, then retry",
        reason=Reason.OVERLOADED,
        retry_after_ms=20,
    )
