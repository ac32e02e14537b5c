"""Streams of queries as frames on TCP connections of their own: `wire/frames/framing.py`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from queryable_state.server.query.frames.connection_acceptor import ConnectionAcceptor
from queryable_state.server.query.frames.frame_connection import FrameConnection
from queryable_state.server.serving.byte_budget import ClientBudgets
from queryable_state.server.serving.sockets.listening_socket import listening_socket

if TYPE_CHECKING:
    import socket

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
