"""Acceptor of frame connections: bounds those that have not said hello yet."""

from __future__ import annotations

import asyncio
import logging
import socket
from typing import TYPE_CHECKING

from queryable_state.server.process.rate_limited_log import RateLimitedLog
from queryable_state.server.query.frames.connection_refusals import HELLO_TIMEOUT_S
from queryable_state.server.serving.sockets.accept_loop import AcceptLoop

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable

    from queryable_state.server.query.frames.frame_connection import FrameConnection

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
