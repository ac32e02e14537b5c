"""Acceptor of HTTP connections: bounds those that are open, also within their TLS handshake."""

from __future__ import annotations

import asyncio
import logging
import socket
from typing import TYPE_CHECKING

from queryable_state.server.process.rate_limited_log import RateLimitedLog
from queryable_state.server.serving.sockets.accept_loop import AcceptLoop

if TYPE_CHECKING:
    import ssl

    from aiohttp import web

_log = RateLimitedLog(logging.getLogger(__name__))


class HttpAcceptor:
    """Accepts connections on a listening socket, which it owns, until `close`.

    A connection beyond the limit, also one within its TLS handshake, is closed at once.
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
        self._server = server
        self._most = most
        self._context = context
        self._handshake_timeout_s = handshake_timeout_s
        self._opening: set[asyncio.Task[None]] = set()
        self._accepting = AcceptLoop(listening, self._accepted, what="the web port")

    def close(self) -> None:
        """Stops accepting, and gives up handshakes; open connections continue. Idempotent."""
        self._accepting.close()
        for task in self._opening:
            task.cancel()

    def _accepted(self, accepted: socket.socket) -> None:
        if len(self._server.connections) + len(self._opening) >= self._most:
            _log.write(
                logging.WARNING,
                "connections",
                "the web port closes new connections, because %d are open",
                self._most,
            )
            accepted.close()
            return
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
