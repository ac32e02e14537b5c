"""The state servers known and the leases they hold."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from queryable_state.wire.errors import (
    InvalidRequestError,
    PlacementError,
    Reason,
    SupersededError,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from queryable_state.internal.v1 import coordinator_pb2
    from queryable_state.v1 import registration_pb2


# A server that reaches no coordinator for so long has ended by itself long since.
_FORGOTTEN_MS = 30 * 60_000


@dataclass(kw_only=True)
class Server:
    """One state server process and its lease; times are milliseconds of the clock of leases."""

    server_id: str
    executor_id: str
    query_address: str
    frames: registration_pb2.FrameEndpoint
    """Where the server at `query_address` takes look-ups as frames."""
    proxy_address: str
    backend_address: str
    pid: int
    renewed_ms: int
    """When the lease was last given."""
    expires_ms: int
    """When the lease ends here; at the server it has ended before."""
    taken_version: int = 0
    """Newest placement whose lease it has taken: what it did not own then, it holds no more."""
    lapsed: bool = False
    """Expired by more than the margin: what it owns may be given away."""


class ServerTable:
    """Who holds a lease until when.

    A server counts its lease from before it asked, the table from when it
    answered, and nothing is given away before the margin is over too: so no two
    servers ever hold a range at one time. Not thread-safe.
    """

    def __init__(self, *, lease_ms: int, margin_ms: int) -> None:
        self.lease_ms = lease_ms
        self._margin_ms = margin_ms
        self._servers: dict[str, Server] = {}
        self._replaced_by: dict[str, str] = {}
        # Nobody lapses before, and nobody who lapsed has come back: a lease only gets longer.
        self._settled_until_ms: float = 0

    def __iter__(self) -> Iterator[Server]:
        """Every server, by registration."""
        return iter(self._servers.values())

    def register(
        self, request: coordinator_pb2.RegisterServerRequest, now_ms: int
    ) -> tuple[Server, list[Server]]:
        """Gives a first lease; answers the server and those it proves gone, now removed.

        The same server may register again and keeps what it owns. One that was
        replaced by a newer server of its executor is fenced.
        """
        if not (request.server_id and request.executor_id and request.backend_address):
            raise InvalidRequestError(
                "a server registers with its server_id, executor_id and backend_address; "
                f"got {request.server_id!r}, {request.executor_id!r}, {request.backend_address!r}"
            )
        newer = self._replaced_by.get(request.server_id)
        if newer is not None:
            raise SupersededError(
                f"server {request.server_id} was replaced by {newer}, a newer server of executor "
                f"{request.executor_id}; it must end"
            )
        gone = [
            server
            for server in self._servers.values()
            if server.executor_id == request.executor_id and server.server_id != request.server_id
        ]
        for server in gone:
            del self._servers[server.server_id]
            self._replaced_by[server.server_id] = request.server_id
        known = self._servers.get(request.server_id)
        server = Server(
            server_id=request.server_id,
            executor_id=request.executor_id,
            query_address=request.query_address,
            frames=request.frames,
            proxy_address=request.proxy_address,
            backend_address=request.backend_address,
            pid=request.pid,
            renewed_ms=now_ms,
            expires_ms=now_ms + self.lease_ms,
            taken_version=0 if known is None else known.taken_version,
            lapsed=known is not None and known.lapsed,
        )
        self._servers[server.server_id] = server
        self._settled_until_ms = (
            now_ms if server.lapsed else min(self._settled_until_ms, self.freed_at_ms(server))
        )
        return server, gone

    def renew(self, server_id: str, now_ms: int) -> Server:
        """Extends the lease; raises LEASE_EXPIRED for a server not known (any more)."""
        server = self.get(server_id)
        server.renewed_ms = now_ms
        server.expires_ms = now_ms + self.lease_ms
        if server.lapsed:
            self._settled_until_ms = now_ms
        return server

    def remove(self, server_id: str) -> Server | None:
        """Forgets a server; None where it was not known."""
        return self._servers.pop(server_id, None)

    def get(self, server_id: str) -> Server:
        """The server of this id; raises LEASE_EXPIRED where there is none."""
        server = self._servers.get(server_id)
        if server is None:
            raise PlacementError(
                f"server {server_id!r} is not registered with this coordinator; "
                "register it, and open anew what it owned",
                reason=Reason.LEASE_EXPIRED,
            )
        return server

    def find(self, server_id: str) -> Server | None:
        """The server of this id, or None."""
        return self._servers.get(server_id)

    def holding(self, now_ms: int) -> list[Server]:
        """The servers that can be given something: their lease has not ended."""
        return [server for server in self if now_ms < server.expires_ms]

    def freed_at_ms(self, server: Server) -> int:
        """When what the server owns may be given away, unless it renews."""
        return server.expires_ms + self._margin_ms

    def sweep(self, now_ms: int) -> bool:
        """Marks who lapsed and who came back; whether anyone did."""
        if now_ms < self._settled_until_ms:
            return False
        changed = False
        for server in self:
            lapsed = now_ms >= self.freed_at_ms(server)
            changed |= lapsed != server.lapsed
            server.lapsed = lapsed
        self._settled_until_ms = min(map(self._changes_at_ms, self), default=math.inf)
        return changed

    def _changes_at_ms(self, server: Server) -> float:
        """When a server lapses unless it renews; one that has lapsed stays so until it does."""
        return math.inf if server.lapsed else self.freed_at_ms(server)

    def remove_long_lapsed(self, now_ms: int) -> list[Server]:
        """Forgets, and answers, the servers that lapsed so long ago that none comes back."""
        gone = [server for server in self if now_ms >= self.freed_at_ms(server) + _FORGOTTEN_MS]
        for server in gone:
            del self._servers[server.server_id]
        return gone

    def forgive(self, gap_ms: int) -> None:
        """Extends every lease by a time in which nobody could renew it here."""
        for server in self:
            if not server.lapsed:
                server.expires_ms += gap_ms
