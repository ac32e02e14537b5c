"""Streams of queries as frames on TCP connections of their own: `wire/frames/framing.py`."""

from __future__ import annotations

import asyncio
import logging
import socket
from typing import TYPE_CHECKING

from queryable_state.server.process.rate_limited_log import RateLimitedLog
from queryable_state.server.query.frames.frame_connection import HELLO_TIMEOUT_S, FrameConnection
from queryable_state.server.serving.byte_budget import ClientBudgets
from queryable_state.server.serving.sockets.accept_loop import AcceptLoop
from queryable_state.server.serving.sockets.listening_socket import listening_socket

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable

    from queryable_state.server.query.frames.open_streams import OpenStreams
    from queryable_state.server.query.router import Router, ServiceInfo
    from queryable_state.server.security.server_tls import ServerTls


class FrameServer:
    """Listens for frame connections. Call `add_port`, then `start`, then `aclose`."""

    def __init__(
        self,
        router: Router,
        info: ServiceInfo,
        streams: OpenStreams,
        budgets: ClientBudgets | None = None,
        *,
        tls: ServerTls | None = None,
    ) -> None:
        """`budgets`: the memory budgets of the process; None: budgets of its own. `tls`: None
        listens in clear text."""
        self._router = router
        self._info = info
        self._streams = streams
        self._budgets = budgets or ClientBudgets(info.limits.held_bytes)
        self._connections: set[FrameConnection] = set()
        self._tls = tls
        self._listening: socket.socket | None = None
        self._acceptor: ConnectionAcceptor | None = None

    def add_port(self, address: str) -> int:
        """Binds HOST:PORT and returns the port; raises `RuntimeError` if it is in use."""
        self._listening = listening_socket(address)
        bound: int = self._listening.getsockname()[1]
        return bound

    async def start(self) -> None:
        """Starts to serve, if a port was added."""
        if self._listening is not None:
            self._acceptor = ConnectionAcceptor(
                self._listening,
                self._connected,
                context=None if self._tls is None else self._tls.context(),
            )

    def close_port(self) -> None:
        """Stops accepting connections; open ones continue. Idempotent."""
        listening, self._listening = self._listening, None
        if self._acceptor is not None:
            self._acceptor.close()
        elif listening is not None:
            listening.close()

    async def aclose(self) -> None:
        """Closes all connections; drain them before. Idempotent."""
        self.close_port()
        if self._acceptor is not None:
            await self._acceptor.aclose()
        for connection in tuple(self._connections):
            await connection.aclose()

    def _connected(self) -> FrameConnection:
        return FrameConnection(
            self._router, self._info, self._streams, self._budgets, self._connections
        )


# Connections before the end of their hello. With TLS each has a buffer of 256 KiB.
_PLACES = 64
# Time that a connection has for its handshake and hello while others wait for its place.
_UNDISTURBED_S = 1.0

_log = RateLimitedLog(logging.getLogger(__name__))


class ConnectionAcceptor:
    """Accepts connections on a listening socket, which it owns, until `close`.

    A limited number of connections has a place, from `accept` on until their hello is accepted.
    Without a free place further connections wait in the backlog of the socket. Then the oldest
    connection is closed once it is a second old, so that connections that say nothing delay
    others by a second for each full set of places.
    """

    def __init__(
        self,
        listening: socket.socket,
        connection: Callable[[], FrameConnection],
        *,
        context: ssl.SSLContext | None,
    ) -> None:
        """`context`: None accepts clear text."""
        self._loop = asyncio.get_running_loop()
        self._connection = connection
        self._context = context
        self._opening: dict[asyncio.Task[None], float] = {}
        """Loop times at which they were accepted, the oldest first."""
        self._accepting = AcceptLoop(
            listening, self._accepted, what="a frame port", has_room=self._has_place
        )

    def close(self) -> None:
        """Stops accepting; accepted connections continue. Idempotent."""
        self._accepting.close()

    async def aclose(self) -> None:
        """Also closes the connections without a hello. Idempotent."""
        self.close()
        # A task that is cancelled before its first step would not close its socket.
        await asyncio.sleep(0)
        opening = tuple(self._opening)
        for task in opening:
            task.cancel()
        await asyncio.gather(*opening, return_exceptions=True)

    def _has_place(self) -> bool:
        if len(self._opening) < _PLACES:
            return True
        self._make_place()
        return False

    def _accepted(self, accepted: socket.socket) -> None:
        task = self._loop.create_task(self._open(accepted))
        self._opening[task] = self._loop.time()
        task.add_done_callback(self._opened)

    def _make_place(self) -> None:
        """Closes the oldest connection that has had its time; waits if there is none."""
        oldest, since = next(iter(self._opening.items()))
        left_s = since + _UNDISTURBED_S - self._loop.time()
        if left_s > 0:
            self._accepting.pause(left_s)
            return
        _log.write(
            logging.WARNING,
            "place",
            "a frame port closes connections without a hello, because %d have none and others wait",
            len(self._opening),
        )
        oldest.cancel()
        # Until the place is free, which is in a turn of the loop.
        self._accepting.pause(_UNDISTURBED_S)

    async def _open(self, accepted: socket.socket) -> None:
        """Returns once the connection has said hello, or is closed."""
        connection = self._connection()
        try:
            accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except OSError:
            # The client has gone.
            accepted.close()
            return
        # From here the transport owns the socket, and closes it.
        try:
            await self._loop.connect_accepted_socket(
                lambda: connection,
                accepted,
                ssl=self._context,
                ssl_handshake_timeout=None if self._context is None else HELLO_TIMEOUT_S,
            )
            await connection.opened.wait()
        except OSError:
            # The handshake has failed: only the client knows why.
            return
        except asyncio.CancelledError:
            connection.abort()
            raise

    def _opened(self, task: asyncio.Task[None]) -> None:
        del self._opening[task]
        if not task.cancelled() and (failure := task.exception()) is not None:
            _log.write(logging.ERROR, "failure", "a connection could not be opened: %r", failure)
        self._accepting.resume()
