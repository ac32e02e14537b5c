"""The servers whose addresses the client was given: any one of them answers for all keys."""

from __future__ import annotations

from typing import TYPE_CHECKING

from queryable_state.wire.addresses import host_and_port, join_address
from queryable_state.wire.calls.listeners import NothingListensError, nothing_listens, speaks_http
from queryable_state.wire.errors import InvalidRequestError
from queryable_state.wire.frames.framed_stream import is_frame_port

if TYPE_CHECKING:
    from collections.abc import Sequence

    from queryable_state.client._connection.server_connection import ServerConnection
    from queryable_state.wire.security.connector import Connector


class HomeServers:
    """The given servers in their order, and the current one, which gets all calls while it lasts.

    When the current one is lost, the next one that is connected or may be tried takes its place,
    so that a retry reaches another server.
    """

    def __init__(self, servers: Sequence[ServerConnection], connector: Connector) -> None:
        """`servers`: at least one."""
        self._servers = tuple(servers)
        self._connector = connector
        self._current = 0
        self._was_reached = self._looked_for_others = False
        self._other_port = ""

    def __contains__(self, server: ServerConnection) -> bool:
        return server in self._servers

    @property
    def current(self) -> ServerConnection:
        """The server to ask."""
        for server in self.in_order:
            if server.is_ready or server.may_connect():
                self._current = self._servers.index(server)
                break
        return self._servers[self._current]

    @property
    def in_order(self) -> tuple[ServerConnection, ...]:
        """All servers, the current one first, then those behind it."""
        return self._servers[self._current :] + self._servers[: self._current]

    def callable(self) -> list[ServerConnection]:
        """The servers to call one after the other; those that just failed come last."""
        return sorted(self.in_order, key=lambda server: not server.may_connect())

    def reached(self) -> None:
        """Notes that a server has answered: from now on all of them are expected back."""
        self._was_reached = True

    def lost(self, server: ServerConnection) -> None:
        """Makes the next server the current one if this one was."""
        if server is self._servers[self._current]:
            self._current = (self._current + 1) % len(self._servers)

    async def refuse_if_nothing_listens(self) -> None:
        """Raises `NothingListensError` if no server was ever reached and no process listens.

        Raises `InvalidRequestError` if an address is that of a frame port or of a web server.
        Called after a failed call: a wrong address, or a job that has not started, is said at once
        and not at the end of the caller's time.
        """
        if self._was_reached:
            return
        addresses = [server.address for server in self._servers]
        problem = await nothing_listens(addresses)
        if not problem and not self._looked_for_others:
            self._looked_for_others = True
            self._other_port = await self._other_port_of(addresses)
        if self._other_port:
            raise InvalidRequestError(self._other_port)
        if problem:
            raise NothingListensError(
                f"no state server or proxy listens at {' or '.join(addresses)} ({problem}): check "
                "host and port, and that the job or the proxy runs; a proxy has port 9069 by "
                "default",
                retry_after_ms=1000,
            )

    async def _other_port_of(self, addresses: Sequence[str]) -> str:
        """Says which of the addresses belongs to a listener that is no gRPC server."""
        for address in addresses:
            host, port = host_and_port(address)
            if await is_frame_port(host, port, self._connector):
                return (
                    f"{address} is the frame port of a server: give the gRPC port beside it, by "
                    f"default {join_address(host, port - 1)}; the client finds the frame port "
                    "itself"
                )
            if await speaks_http(address, self._connector):
                return (
                    f"a web server listens at {address}, such as that of the page or of metrics: "
                    "give the gRPC port of a proxy (9069 by default) or of a state server (9067)"
                )
        return ""
