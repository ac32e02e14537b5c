"""Acceptor of HTTP connections: bounds those that are open, also within their TLS handshake."""

from __future__ import annotations

import asyncio
import logging
import socket
from typing import TYPE_CHECKING

from queryable_state.server.process.rate_limited_log import RateLimitedLog

if TYPE_CHECKING:
    import ssl

    from aiohttp import web

_log = RateLimitedLog(logging.getLogger(__name__))

# Pause after an error of `accept`, such as too many open files.
_PAUSE_S = 1.0
_ACCEPTED_A_TURN = 64


class HttpAcceptor:
    """Accepts connections on a listening socket, which it owns, until `close`.

    The event loop reports a TLS connection only after its handshake: it is counted from `accept`
    on. A connection beyond the limit is closed at once.
    """

    def __init__(
        self,
        listening: socket.socket,
        server: web.Server,
        *,
        most: int,
        context: ssl.SSLContext | None,
        handshake_timeout_s: float,
    ) -> None:
        """`most`: open connections; `context`: None accepts clear text."""
        self._loop = asyncio.get_running_loop()
        self._listening = listening
        self._server = server
        self._most = most
        self._context = context
        self._handshake_timeout_s = handshake_timeout_s
        self._opening: set[asyncio.Task[None]] = set()
        self._resume: asyncio.TimerHandle | None = None
        self._closed = False
        listening.setblocking(False)
        self._loop.add_reader(listening, self._accept)

    def close(self) -> None:
        """Stops accepting, and gives up handshakes; open connections continue. Idempotent."""
        if self._closed:
            return
        self._closed = True
        if self._resume is not None:
            self._resume.cancel()
        self._loop.remove_reader(self._listening)
        self._listening.close()
        for task in self._opening:
            task.cancel()

    def _accept(self) -> None:
        for _ in range(_ACCEPTED_A_TURN):
            try:
                accepted, _ = self._listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as problem:
                _log.write(
                    logging.ERROR,
                    f"accept {problem.errno}",
                    "the web port accepts no connection for %g s: %s",
                    _PAUSE_S,
                    problem,
                )
                self._loop.remove_reader(self._listening)
                self._resume = self._loop.call_later(
                    _PAUSE_S, self._loop.add_reader, self._listening, self._accept
                )
                return
            if len(self._server.connections) + len(self._opening) >= self._most:
                _log.write(
                    logging.WARNING,
                    "connections",
                    "the web port closes new connections, because %d are open",
                    self._most,
                )
                accepted.close()
                continue
            task = self._loop.create_task(self._open(accepted))
            self._opening.add(task)
            task.add_done_callback(self._opening.discard)

    async def _open(self, accepted: socket.socket) -> None:
        """Returns once the connection is open, after its handshake, or closed."""
        try:
            accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            # From here the transport owns the socket, and closes it.
            await self._loop.connect_accepted_socket(
                self._server,
                accepted,
                ssl=self._context,
                ssl_handshake_timeout=None if self._context is None else self._handshake_timeout_s,
            )
        except OSError:
            # The client has gone, or the handshake has failed: only the client knows why.
            accepted.close()
