"""Query stream from a client or a proxy to one server.

The stream sends queries as frames over its own TCP connection (docs/frame-protocol.md). While
the frame port is unreachable, for example behind a firewall, it uses unary gRPC calls.
"""

from __future__ import annotations

import asyncio
import socket
from typing import TYPE_CHECKING, Any, Protocol

import grpc.aio

from queryable_state.v1 import query_pb2
from queryable_state.wire.addresses import host_and_port, join_address
from queryable_state.wire.calls.channel_options import channel_options
from queryable_state.wire.errors import QueryableStateError, Reason, RetryLaterError
from queryable_state.wire.frames.framed_stream import FramedStream, OtherServerError
from queryable_state.wire.frames.stream_hello import common_version, no_common_version
from queryable_state.wire.security.authorization import FRAME_HELLO
from queryable_state.wire.security.connector import CLEAR_TEXT
from queryable_state.wire.security.credentialed_calls import with_credentials
from queryable_state.wire.status import error_from_call
from queryable_state.wire.unary_stream import UnaryStream

if TYPE_CHECKING:
    from collections.abc import Callable

    from queryable_state.wire.frames.frame_ports import FramePorts
    from queryable_state.wire.security.authorization import Credentials
    from queryable_state.wire.security.connector import Connector

CHANNEL_OPTIONS = channel_options(longest_reconnect_ms=500, own_connections=True)

_DESCRIBE = "/queryable_state.v1.QueryableState/DescribeServer"

# A firewall may drop the packets of an attempt. Queries wait for the first attempt; later ones
# run in the background.
_FIRST_ATTEMPT_S = 0.25
_LATER_ATTEMPTS_S = 3.0

# Addresses of a name that are tried, and attempts at one that may be a balancer's.
_MOST_ADDRESSES = 16
_ATTEMPTS = 4

# The server answers but accepts no connection: it would refuse unary calls, too.
_REFUSED_ANYWAY = (Reason.OVERLOADED, Reason.STOPPING, Reason.UNAUTHENTICATED)


class QueryStream(Protocol):
    """One open stream to one server."""

    @property
    def server_id(self) -> str:
        """The id of the server."""
        ...

    @property
    def limits(self) -> query_pb2.Limits:
        """The limits of the server."""
        ...

    @property
    def transport(self) -> str:
        """The current transport: "frames" or "unary"."""
        ...

    def send(self, frame: bytes) -> None:
        """Sends a serialized `ClientFrame` of a query after those before it; never blocks."""
        ...

    async def aclose(self) -> None:
        """Ends the stream and waits for its tasks. Idempotent."""
        ...


class StreamOpener:
    """Opener of streams to the server at HOST:PORT.

    `on_frame` gets each serialized `ServerFrame` after the hello, on the loop. `on_end` is called
    once, with the reason, if the stream ended by itself; nothing is received or sent from then on.
    After `aclose` of the stream neither is called. The outcome of each attempt at the frame port
    goes to `frame_ports`.
    """

    def __init__(
        self,
        channel: grpc.aio.Channel,
        address: str,
        *,
        server_id: str,
        client: str,
        frame_ports: FramePorts,
        on_frame: Callable[[bytes], None],
        on_end: Callable[[QueryableStateError], None],
        connector: Connector = CLEAR_TEXT,
        credentials: Credentials | None = None,
    ) -> None:
        """`server_id`: the only server accepted at the address; empty: any server."""
        self._channel = channel
        self._address = address
        self._host = host_and_port(address)[0]
        self._server_id = server_id
        self._client = client
        self._frame_ports = frame_ports
        self._on_frame = on_frame
        self._on_end = on_end
        self._connector = connector
        self._credentials = credentials

    async def open(
        self, known: query_pb2.ServerDescription | None, timeout_s: float
    ) -> QueryStream:
        """Opens a stream; returns once the server has answered.

        `known`: the server's description from LocateState, which saves a DescribeServer call;
        None: fetch it. Raises the server's refusal, or `RetryLaterError` if no server, or another
        one than expected, answers within `timeout_s`.
        """
        # The background task retries a frame port that was unreachable at the last attempt.
        tries_frames = not self._frame_ports.problem(self._address)
        attempt: FramedStream | Exception | None = None
        if known is not None and self._server_id not in ("", known.server_id):
            known = None
        if known is not None and known.frames.port and tries_frames:
            attempt = await self._attempt(known)
            if isinstance(attempt, FramedStream):
                return attempt
        described = await self._describe(timeout_s)
        if described.frames.port and tries_frames:
            if attempt is None or known is None or not _is_same(known, described):
                attempt = await self._attempt(described)
            if isinstance(attempt, FramedStream):
                return attempt
            self._frame_ports.missed(self._address, self._frame_address(described), attempt)
        return self._unary(described)

    async def _attempt(self, server: query_pb2.ServerDescription) -> FramedStream | Exception:
        """Returns the frame connection, or its failure; raises a refusal by the server."""
        try:
            return await self._over_frames(server, self._on_end, _FIRST_ATTEMPT_S)
        except (OSError, QueryableStateError) as failure:
            if isinstance(failure, QueryableStateError) and failure.reason in _REFUSED_ANYWAY:
                raise
            return failure

    def _unary(self, described: query_pb2.ServerDescription) -> UnaryStream:
        if not described.frames.port:
            self._frame_ports.absent(self._address)

        async def connect() -> FramedStream:
            # Another server, with another frame port, may have the address now.
            now = await self._describe(_LATER_ATTEMPTS_S)
            try:
                return await self._over_frames(now, stream.end, _LATER_ATTEMPTS_S)
            except (OSError, QueryableStateError) as failure:
                self._frame_ports.missed(self._address, self._frame_address(now), failure)
                raise

        stream = UnaryStream(
            self._channel,
            self._address,
            described,
            server_id=self._server_id,
            connect=connect if described.frames.port else None,
            on_frame=self._on_frame,
            on_end=self._on_end,
            credentials=self._credentials,
        )
        return stream

    async def _over_frames(
        self,
        server: query_pb2.ServerDescription,
        on_end: Callable[[QueryableStateError], None],
        timeout_s: float,
    ) -> FramedStream:
        try:
            return await self._framed(server, on_end, timeout_s)
        except QueryableStateError as refusal:
            if self._credentials is None or not self._credentials.corrects(refusal):
                raise
        return await self._framed(server, on_end, timeout_s)

    async def _framed(
        self,
        server: query_pb2.ServerDescription,
        on_end: Callable[[QueryableStateError], None],
        timeout_s: float,
    ) -> FramedStream:
        frames = server.frames
        if not common_version(frames.min_version, frames.max_version):
            raise no_common_version(
                "this client", f"server {server.server_id}", frames.min_version, frames.max_version
            )
        failure: Exception | None = None
        unreachable: set[str] = set()
        for ip_address in await self._ip_addresses():
            if ip_address in unreachable:
                continue
            try:
                framed = await self._framed_at(ip_address, server, on_end, timeout_s)
            except OtherServerError as problem:
                failure = problem
            except OSError as problem:
                failure = problem
                unreachable.add(ip_address)
            else:
                self._frame_ports.reached(self._address, self._frame_address(server))
                return framed
        assert failure is not None
        raise failure

    async def _ip_addresses(self) -> list[str]:
        """The addresses at which the described server may be, to be tried in turn.

        A name may stand for several servers, and gRPC has reached one of them. One address may be
        that of a balancer, which chooses a server for each connection: it is tried several times.
        """
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo(self._host, None, type=socket.SOCK_STREAM)
        ip_addresses = list(dict.fromkeys(str(info[4][0]) for info in found))[:_MOST_ADDRESSES]
        if len(ip_addresses) == 1 and not self._server_id:
            return ip_addresses * _ATTEMPTS
        return ip_addresses

    async def _framed_at(
        self,
        ip_address: str,
        server: query_pb2.ServerDescription,
        on_end: Callable[[QueryableStateError], None],
        timeout_s: float,
    ) -> FramedStream:
        frames = server.frames
        return await FramedStream.open(
            self._host,
            frames.port,
            server_id=server.server_id,
            client=self._client,
            on_frame=self._on_frame,
            on_end=on_end,
            timeout_s=timeout_s,
            at=ip_address,
            connector=self._connector,
            authorization=""
            if self._credentials is None
            else self._credentials.header(FRAME_HELLO),
        )

    async def _describe(self, timeout_s: float) -> query_pb2.ServerDescription:
        describe: Any = self._channel.unary_unary(
            _DESCRIBE,
            request_serializer=query_pb2.DescribeServerRequest.SerializeToString,
            response_deserializer=query_pb2.ServerDescription.FromString,
        )
        request = query_pb2.DescribeServerRequest()
        try:
            described: query_pb2.ServerDescription = await with_credentials(
                self._credentials,
                _DESCRIBE,
                lambda metadata: describe(request, timeout=timeout_s, metadata=metadata),
            )
        except grpc.aio.AioRpcError as failure:
            if failure.code() == grpc.StatusCode.DEADLINE_EXCEEDED:
                raise RetryLaterError(
                    f"{self._address} did not answer within {timeout_s:g} s", retry_after_ms=100
                ) from None
            raise await self._explained(error_from_call(failure, self._address)) from failure
        if self._server_id not in ("", described.server_id):
            # A new server reuses the port, or the address is translated on the way.
            raise RetryLaterError(
                f"server {self._server_id} is expected at {self._address}, and "
                f"{described.server_id} answers there: one has taken the port of the other",
                retry_after_ms=100,
            )
        return described

    async def _explained(self, error: QueryableStateError) -> QueryableStateError:
        """The error of a failed call; logs it if TLS is the cause, which no retry cures."""
        if error.reason == Reason.UNAVAILABLE:
            problem = await self._frame_ports.diagnosis(self._address, self._connector, error)
            if problem is not error:
                return RetryLaterError(problem.message, retry_after_ms=error.retry_after_ms)
        return error

    def _frame_address(self, server: query_pb2.ServerDescription) -> str:
        return join_address(self._host, server.frames.port)


def _is_same(known: query_pb2.ServerDescription, described: query_pb2.ServerDescription) -> bool:
    return known.server_id == described.server_id and known.frames == described.frames
