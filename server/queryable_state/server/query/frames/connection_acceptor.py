"""Acceptor of frame connections: bounds those that have not said hello yet."""

from __future__ import annotations

import asyncio
import logging
import socket
from typing import TYPE_CHECKING

from queryable_state.server.process.rate_limited_log import RateLimitedLog
from queryable_state.server.query.frames.connection_refusals import HELLO_TIMEOUT_S

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable

    from queryable_state.server.query.frames.frame_connection import FrameConnection

# Connections before the end of their hello. With TLS each has a buffer of 256 KiB.
_PLACES = 64
# Time that a connection has for its handshake and hello while others wait for its place.
_UNDISTURBED_S = 1.0
# Pause after an error of `accept`, such as too many open files.
_PAUSE_S = 1.0
_ACCEPTED_A_TURN = 64

_log = RateLimitedLog(logging.getLogger(__name__))


class ConnectionAcceptor:
    """Accepts connections on a listening socket, which it owns, until `close`.

    The event loop reports a TLS connection only after its handshake. Therefore the acceptor counts
    connections from `accept` on, and gives a limited number of them a place, which they keep
    until their hello is accepted. Without a free place further connections wait in the backlog of
    the socket. Then the oldest connection is closed once it is a second old, so that
    connections that say nothing delay others by a second for each full set of places.
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
        self._listening = listening
        self._connection = connection
        self._context = context
        self._opening: dict[asyncio.Task[None], float] = {}
        """Loop times at which they were accepted, the oldest first."""
        self._resume: asyncio.TimerHandle | None = None
        self._accepting = self._closed = False
        listening.setblocking(False)
        self._start()

    def close(self) -> None:
        """Stops accepting; accepted connections continue. Idempotent."""
        if self._closed:
            return
        self._closed = True
        self._stop()
        self._listening.close()

    async def aclose(self) -> None:
        """Also closes the connections without a hello. Idempotent."""
        self.close()
        # A task that is cancelled before its first step would not close its socket.
        await asyncio.sleep(0)
        opening = tuple(self._opening)
        for task in opening:
            task.cancel()
        await asyncio.gather(*opening, return_exceptions=True)

    def _start(self) -> None:
        if self._resume is not None:
            self._resume.cancel()
            self._resume = None
        if not self._closed and not self._accepting:
            self._accepting = True
            self._loop.add_reader(self._listening, self._accept)

    def _stop(self, for_s: float | None = None) -> None:
        """Stops accepting, for a time if one is given."""
        if self._resume is not None:
            self._resume.cancel()
            self._resume = None
        if self._accepting:
            self._accepting = False
            self._loop.remove_reader(self._listening)
        if for_s is not None:
            self._resume = self._loop.call_later(for_s, self._start)

    def _accept(self) -> None:
        """Accepts the waiting connections, as far as there are places."""
        for _ in range(_ACCEPTED_A_TURN):
            if len(self._opening) >= _PLACES:
                self._make_place()
                return
            try:
                accepted, _ = self._listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as problem:
                _log.write(
                    logging.ERROR,
                    f"accept {problem.errno}",
                    "a frame port accepts no connection for %g s: %s",
                    _PAUSE_S,
                    problem,
                )
                self._stop(_PAUSE_S)
                return
            task = self._loop.create_task(self._open(accepted))
            self._opening[task] = self._loop.time()
            task.add_done_callback(self._opened)

    def _make_place(self) -> None:
        """Closes the oldest connection that has had its time; waits if there is none."""
        oldest, since = next(iter(self._opening.items()))
        left_s = since + _UNDISTURBED_S - self._loop.time()
        if left_s > 0:
            self._stop(left_s)
            return
        _log.write(
            logging.WARNING,
            "place",
            "a frame port closes connections without a hello, because %d have none and others wait",
            len(self._opening),
        )
        oldest.cancel()
        # Until the place is free, which is in a turn of the loop.
        self._stop(_UNDISTURBED_S)

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
        if not self._closed and not self._accepting:
            self._start()
