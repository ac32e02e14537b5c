"""Query stream as frames over its own TCP connection."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from typing import TYPE_CHECKING, Any

from queryable_state.v1 import query_pb2
from queryable_state.wire.calls.forks import abandon, at_fork
from queryable_state.wire.errors import (
    AuthenticationError,
    CorruptDataError,
    QueryableStateError,
    RetryLaterError,
)
from queryable_state.wire.frames.stream_hello import client_hello, gone, response_of, server_hello
from queryable_state.wire.security.connector import CLEAR_TEXT
from queryable_state.wire.security.tls_probe import expects_tls

if TYPE_CHECKING:
    from collections.abc import Callable

    from queryable_state.wire.security.connector import Connector


# The server's limits bound its answers; no server is configured with a larger one.
_MAX_FRAME_BYTES = 1 << 30

# The first byte of a `ServerFrame` with an error: the tag of that length-delimited field.
_ERROR_TAG = (query_pb2.ServerFrame.ERROR_FIELD_NUMBER << 3 | 2).to_bytes(1, "big")

PREAMBLE = b"QKVS\x00\x00\x00\x01"
"""Last byte: version of the framing."""

_LENGTH_BYTES = 4

# Time for a server to answer the hello of `is_frame_port`.
_LOOK_S = 1.0

# How a port with TLS answers a client without. As the length of a frame it is over the limit.
_TLS_ALERT = b"\x15\x03"


class OtherServerError(RetryLaterError):
    """Try another address of the name: another server than the expected one answers at this one."""


def framed(frame: bytes) -> bytes:
    """Returns the frame with its length prefix."""
    return len(frame).to_bytes(_LENGTH_BYTES, "big") + frame


class FrameReader:
    """Splitter of a byte stream into frames.

    `feed` adds received bytes, `take` returns the next whole frame. A length above `most_bytes`
    raises `CorruptDataError`.
    """

    __slots__ = ("_at", "_need", "_pieces", "held_bytes", "most_bytes")

    def __init__(self, most_bytes: int) -> None:
        self.most_bytes = most_bytes
        """Maximum length of a frame; may be changed between frames."""
        self._pieces: list[bytes] = []
        self._at = 0
        self.held_bytes = 0
        """Received bytes that were not taken."""
        # How many are needed before `take` looks again.
        self._need = _LENGTH_BYTES

    @property
    def is_partial(self) -> bool:
        """True if `take` has seen the beginning of a frame but not its end."""
        return 0 < self.held_bytes < self._need

    def clear(self) -> None:
        """Drops the bytes that were not taken."""
        self._pieces.clear()
        self._at = self.held_bytes = 0
        self._need = _LENGTH_BYTES

    def feed(self, data: bytes) -> None:
        """Adds received bytes."""
        self._pieces.append(data)
        self.held_bytes += len(data)

    def first(self, data: bytes) -> bytes | None:
        """Adds received bytes; returns the next frame, as `take`."""
        if not self.held_bytes:
            # The common case: one whole frame, which needs no joining.
            length = len(data) - _LENGTH_BYTES
            if 0 < length <= self.most_bytes and length == int.from_bytes(data[:_LENGTH_BYTES]):
                return data[_LENGTH_BYTES:]
        self.feed(data)
        return self.take()

    def take(self) -> bytes | None:
        """Returns the next frame; None if its last byte has not arrived."""
        if self.held_bytes < self._need:
            return None
        pieces = self._pieces
        if len(pieces) > 1:
            # Bytes are joined at most twice for each frame, however many pieces it has.
            pieces[0] = pieces[0][self._at :]
            self._at = 0
            pieces[:] = (b"".join(pieces),)
        data = pieces[0]
        begin = self._at + _LENGTH_BYTES
        length = int.from_bytes(data[self._at : begin], "big")
        if length > self.most_bytes:
            raise CorruptDataError(
                f"a frame announces {length:,} bytes, and at most {self.most_bytes:,} are "
                "accepted: the other side speaks another protocol, or sends too much at once"
            )
        whole = _LENGTH_BYTES + length
        if self.held_bytes < whole:
            self._need = whole
            return None
        self._need = _LENGTH_BYTES
        self.held_bytes -= whole
        if self.held_bytes:
            self._at += whole
        else:
            pieces.clear()
            self._at = 0
        return data[begin : begin + length]


class FramedStream(asyncio.Protocol):
    """One frame connection; a `QueryStream`."""

    transport = "frames"

    def __init__(
        self,
        address: str,
        *,
        on_frame: Callable[[bytes], None],
        on_end: Callable[[QueryableStateError], None],
    ) -> None:
        self.server_id = ""
        self.limits = query_pb2.Limits()
        self._address = address
        self._on_frame = on_frame
        self._on_end = on_end
        self._reader = FrameReader(_MAX_FRAME_BYTES)
        self._ended = False
        self._transport: Any = None
        loop = asyncio.get_running_loop()
        self._greeting: asyncio.Future[query_pb2.ServerHello] | None = loop.create_future()
        self._closed: asyncio.Future[None] = loop.create_future()
        at_fork(self)

    @classmethod
    async def open(
        cls,
        host: str,
        port: int,
        *,
        server_id: str,
        client: str,
        on_frame: Callable[[bytes], None],
        on_end: Callable[[QueryableStateError], None],
        timeout_s: float,
        at: str = "",
        connector: Connector = CLEAR_TEXT,
        authorization: str = "",
    ) -> FramedStream:
        """Connects, sends the hello, and returns once the server's hello has arrived.

        `at`: the IP address of `host` to connect to; empty: any. Raises `OSError` if no server
        answers within `timeout_s`, `OtherServerError` if the server is not `server_id`, and
        another `QueryableStateError` if it refuses.
        """
        loop = asyncio.get_running_loop()
        stream = cls(f"{host}:{port}", on_frame=on_frame, on_end=on_end)
        try:
            async with asyncio.timeout(timeout_s):
                context = connector.context()
                await loop.create_connection(
                    lambda: stream,
                    at or host,
                    port,
                    ssl=context,
                    server_hostname=connector.server_name(host),
                )
                greeting = stream._greeting
                assert greeting is not None
                stream._transport.write(PREAMBLE + framed(client_hello(client, authorization)))
                hello = await greeting
            if hello.server_id != server_id:
                # Another server has the port, for example behind address translation.
                raise OtherServerError(f"{stream._address} is another server, {hello.server_id}")
        except BaseException:
            stream._ended = True
            stream._greeting = None
            if stream._transport is not None:
                stream._transport.abort()
            raise
        return stream

    def send(self, frame: bytes) -> None:
        """Sends a serialized `ClientFrame` after those before it; never blocks."""
        # As `framed`, without its call.
        self._transport.write(len(frame).to_bytes(_LENGTH_BYTES, "big") + frame)

    async def aclose(self) -> None:
        """Closes the connection and waits until it is. Idempotent."""
        self._ended = True
        self._transport.abort()
        await asyncio.shield(self._closed)

    def leave_to_parent(self) -> None:
        """Ends the stream in a forked process, without a byte to the server."""
        self._ended = True
        if self._transport is not None:
            descriptor = self._transport.get_extra_info("socket").fileno()
            if descriptor >= 0:
                abandon(descriptor)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Implements `asyncio.Protocol`: the connection is open."""
        self._transport = transport
        connection = transport.get_extra_info("socket")
        # Detects a vanished host even if no query is in flight.
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        if self._ended:
            # Forked while it connected.
            self.leave_to_parent()

    def data_received(self, data: bytes) -> None:
        """Implements `asyncio.Protocol`: bytes have arrived."""
        reader = self._reader
        if self._greeting is not None and data.startswith(_TLS_ALERT):
            self._end(expects_tls(self._address))
            return
        try:
            frame = None if self._ended else reader.first(data)
            while frame is not None:
                if self._greeting is not None:
                    self._greeted(frame)
                elif frame.startswith(_ERROR_TAG):
                    raise QueryableStateError.from_proto(response_of(frame, self._address).error)
                else:
                    self._on_frame(frame)
                frame = reader.take() if reader.held_bytes and not self._ended else None
        except QueryableStateError as error:
            self._end(error)

    def connection_lost(self, exc: Exception | None) -> None:
        """Implements `asyncio.Protocol`: the connection is closed."""
        self._end(gone(self._address, "broke the connection" if exc else "closed the connection"))
        if not self._closed.done():
            self._closed.set_result(None)

    def _greeted(self, frame: bytes) -> None:
        greeting, self._greeting = self._greeting, None
        assert greeting is not None
        with contextlib.suppress(asyncio.InvalidStateError):
            try:
                hello = server_hello(frame, self._address)
            except QueryableStateError as refusal:
                greeting.set_exception(refusal)
            else:
                self.server_id, self.limits = hello.server_id, hello.limits
                greeting.set_result(hello)

    def _end(self, error: QueryableStateError) -> None:
        greeting, self._greeting = self._greeting, None
        if greeting is not None:
            if not greeting.done():
                greeting.set_exception(error)
        elif not self._ended:
            self._ended = True
            self._transport.abort()
            self._on_end(error)


async def is_frame_port(host: str, port: int, connector: Connector) -> bool:
    """True if a server takes frames at the port, whatever it says to this caller."""
    try:
        await FramedStream.open(
            host,
            port,
            server_id="",
            client="look for a frame port",
            on_frame=lambda _frame: None,
            on_end=lambda _error: None,
            timeout_s=_LOOK_S,
            connector=connector,
        )
    except (OtherServerError, AuthenticationError):
        return True
    except (OSError, QueryableStateError):
        return False
    return True
