"""Streams of queries as frames on TCP connections of their own: `wire/framing.py`."""

from __future__ import annotations

import asyncio
import socket
from typing import TYPE_CHECKING, Any

from queryable_state.server.ending_with_status import told
from queryable_state.server.query.answer_stream import MOST_UNSENT_BYTES
from queryable_state.server.query.open_streams import stopping
from queryable_state.server.query.stream_dialog import StreamDialog
from queryable_state.v1 import query_pb2
from queryable_state.wire.addresses import host_and_port
from queryable_state.wire.errors import InvalidRequestError
from queryable_state.wire.framing import PREAMBLE, FrameReader, framed

if TYPE_CHECKING:
    from queryable_state.server.query.open_streams import OpenStreams
    from queryable_state.server.query.router import Router, ServiceInfo
    from queryable_state.wire.errors import QueryableStateError

_HELLO_TIMEOUT_S = 10.0

# Frames of one connection that are answered before others get their turn.
_FRAMES_A_TURN = 16


class FrameServer:
    """Listens for connections of frames. `add_port`, then `start`, then `aclose`."""

    def __init__(self, router: Router, info: ServiceInfo, streams: OpenStreams) -> None:
        self._router = router
        self._info = info
        self._streams = streams
        self._connections: set[_Connection] = set()
        self._listening: socket.socket | None = None
        self._server: asyncio.Server | None = None

    def add_port(self, address: str) -> int:
        """Binds HOST:PORT and returns the port; `RuntimeError` where it is taken."""
        host, port = host_and_port(address)
        try:
            family, _, _, _, where = socket.getaddrinfo(
                host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
            )[0]
            self._listening = socket.create_server(
                where[:2],
                family=family,
                dualstack_ipv6=family == socket.AF_INET6 and socket.has_dualstack_ipv6(),
            )
        except OSError as problem:
            raise RuntimeError(f"cannot listen on {address}: {problem}") from problem
        bound: int = self._listening.getsockname()[1]
        return bound

    async def start(self) -> None:
        """Serves from here on, where a port was added."""
        if self._listening is not None:
            self._server = await asyncio.get_running_loop().create_server(
                self._connected, sock=self._listening
            )

    def close_port(self) -> None:
        """Takes no more connections; those there are go on. Idempotent."""
        server, self._server = self._server, None
        listening, self._listening = self._listening, None
        if server is not None:
            server.close()
        if listening is not None:
            listening.close()

    async def aclose(self) -> None:
        """Closes what is open; whoever is to be answered was drained before. Idempotent."""
        self.close_port()
        for connection in tuple(self._connections):
            await connection.aclose()

    def _connected(self) -> _Connection:
        return _Connection(self._router, self._info, self._streams, self._connections)


class _Connection(asyncio.Protocol):
    """One client; an `OpenStream` once it has said hello."""

    def __init__(
        self,
        router: Router,
        info: ServiceInfo,
        streams: OpenStreams,
        connections: set[_Connection],
    ) -> None:
        self._info = info
        self._streams = streams
        self._connections = connections
        self._dialog = StreamDialog(router, info, self._deliver)
        self._frames = FrameReader(info.limits.frame_bytes)
        self._preamble = b""
        self._greeted = False
        self._loop = asyncio.get_running_loop()
        self._too_late = self._loop.call_later(_HELLO_TIMEOUT_S, self._abort)
        self._transport: Any = None
        self._writable = asyncio.Event()
        self._writable.set()
        self._scheduled = False
        self._closed: asyncio.Future[None] = self._loop.create_future()
        self._closing: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self._connections.add(self)
        self._transport.set_write_buffer_limits(high=MOST_UNSENT_BYTES)
        # A client whose host vanished is let go of, some day.
        connection = transport.get_extra_info("socket")
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)

    def data_received(self, data: bytes) -> None:
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

    def pause_writing(self) -> None:
        self._writable.clear()
        self._transport.pause_reading()

    def resume_writing(self) -> None:
        self._writable.set()
        self._transport.resume_reading()
        self._schedule()

    def connection_lost(self, exc: Exception | None) -> None:
        self._too_late.cancel()
        self._writable.set()
        self._connections.discard(self)
        self._streams.discard(self)
        self._closed.set_result(None)
        self._closing = self._loop.create_task(self._dialog.aclose())

    def send_away(self) -> None:
        """Tells the client to ask another server."""
        self._deliver(self._dialog.go_away(), False)

    async def drain(self) -> None:
        """Returns once every query read is answered, and the answers are on their way."""
        await self._dialog.drain()
        await self._writable.wait()

    def end(self) -> None:
        """Tells the client that it goes on elsewhere, and hangs up."""
        self._refuse(stopping(self._info))

    async def aclose(self) -> None:
        """Hangs up at once, and returns once nothing of the connection runs."""
        self._abort()
        await asyncio.shield(self._closed)
        if self._closing is not None:
            await asyncio.shield(self._closing)

    def _answer_frames(self) -> None:
        """Answers what has arrived, a number of frames at a time."""
        self._scheduled = False
        try:
            for _ in range(_FRAMES_A_TURN):
                if not self._writable.is_set() or self._transport.is_closing():
                    break
                frame = self._frames.take()
                if frame is None:
                    break
                answer = self._dialog.answer(frame) if self._greeted else self._greet(frame)
                if answer is not None:
                    # Sent at once, so that who asked goes on while the next one is answered.
                    self._transport.write(framed(answer))
            else:
                self._schedule()
        except Exception as failure:  # noqa: BLE001 - the boundary: a defect ends the stream
            self._refuse(told(failure, f"the answer of server {self._info.server_id}"))

    def _greet(self, frame: bytes) -> bytes:
        hello = self._dialog.greet(frame)
        self._streams.add(self)
        self._greeted = True
        self._too_late.cancel()
        return hello

    def _schedule(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._answer_frames)

    def _deliver(self, frame: bytes, last: bool) -> None:
        if not self._transport.is_closing():
            self._transport.write(framed(frame))

    def _refuse(self, error: QueryableStateError) -> None:
        """Says why, and hangs up once that is sent."""
        if not self._transport.is_closing():
            refusal = query_pb2.StreamKvStateResponse(error=error.to_proto())
            self._transport.write(framed(refusal.SerializeToString()))
            self._transport.close()

    def _abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()
