"""Registry of state servers and their leases."""

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


# A server that cannot reach the coordinator ends by itself much earlier.
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
    log_file: str
    """Path of its log on its machine; empty: it has none of its own."""
    registered_ms: int
    """Time of the first registration."""
    renewed_ms: int
    """Time of the last renewal."""
    expires_ms: int
    """End of the lease on the coordinator; it ends earlier on the server."""
    taken_version: int = 0
    """Newest placement version it has applied: it has dropped all subtasks it did not own then."""
    staged_bytes: int = 0
    """Bytes staged and not committed, as of the last renewal."""
    lapsed: bool = False
    """Expired by more than the margin: its subtasks may be given to other servers."""


class ServerTable:
    """Leases of all servers.

    A server counts its lease from before its request, the table from its answer, and subtasks are
    not given away before the margin is over, too: so no two servers own a key group at the same
    time. Not thread-safe.
    """

    def __init__(self, *, lease_ms: int, margin_ms: int) -> None:
        self.lease_ms = lease_ms
        self._margin_ms = margin_ms
        self._servers: dict[str, Server] = {}
        self._replaced_by: dict[str, str] = {}
        # No server lapses or returns before this time: leases are only extended.
        self._unchanged_until_ms: float = 0

    def __iter__(self) -> Iterator[Server]:
        """Every server, by registration."""
        return iter(self._servers.values())

    def register(
        self, request: coordinator_pb2.RegisterServerRequest, now_ms: int
    ) -> tuple[Server, list[Server]]:
        """Grants a first lease; returns the server, and the servers of its executor it replaces.

        The same server may register again and keeps its subtasks. A server that was replaced by a
        newer server of its executor gets SupersededError.
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
            log_file=request.log_file,
            registered_ms=now_ms if known is None else known.registered_ms,
            renewed_ms=now_ms,
            expires_ms=now_ms + self.lease_ms,
            taken_version=0 if known is None else known.taken_version,
            lapsed=known is not None and known.lapsed,
        )
        self._servers[server.server_id] = server
        self._unchanged_until_ms = (
            now_ms if server.lapsed else min(self._unchanged_until_ms, self.freed_at_ms(server))
        )
        return server, gone

    def renew(self, server_id: str, now_ms: int) -> Server:
        """Extends the lease; raises LEASE_EXPIRED for an unknown server."""
        server = self.get(server_id)
        server.renewed_ms = now_ms
        server.expires_ms = now_ms + self.lease_ms
        if server.lapsed:
            self._unchanged_until_ms = now_ms
        return server

    def remove(self, server_id: str) -> Server | None:
        """Forgets a server, and returns it; None if it is unknown."""
        return self._servers.pop(server_id, None)

    def get(self, server_id: str) -> Server:
        """The server of this id; raises LEASE_EXPIRED if it is unknown."""
        server = self._servers.get(server_id)
        if server is None:
            raise PlacementError(
                f"server {server_id!r} is not registered with this coordinator; "
                "register it, and reopen what it owned",
                reason=Reason.LEASE_EXPIRED,
            )
        return server

    def find(self, server_id: str) -> Server | None:
        """The server of this id, or None."""
        return self._servers.get(server_id)

    def holding(self, now_ms: int) -> list[Server]:
        """The servers that can be given subtasks: their lease has not expired."""
        return [server for server in self if now_ms < server.expires_ms]

    def freed_at_ms(self, server: Server) -> int:
        """When the server's subtasks may be given away, unless it renews."""
        return server.expires_ms + self._margin_ms

    def sweep(self, now_ms: int) -> bool:
        """Marks servers that lapsed or renewed after a lapse; True if there are any."""
        if now_ms < self._unchanged_until_ms:
            return False
        changed = False
        for server in self:
            lapsed = now_ms >= self.freed_at_ms(server)
            changed |= lapsed != server.lapsed
            server.lapsed = lapsed
        self._unchanged_until_ms = min(map(self._changes_at_ms, self), default=math.inf)
        return changed

    def _changes_at_ms(self, server: Server) -> float:
        """When a server lapses unless it renews; infinity for a lapsed server."""
        return math.inf if server.lapsed else self.freed_at_ms(server)

    def remove_long_lapsed(self, now_ms: int) -> list[Server]:
        """Forgets and returns the servers that lapsed too long ago to return."""
        gone = [server for server in self if now_ms >= self.freed_at_ms(server) + _FORGOTTEN_MS]
        for server in gone:
            del self._servers[server.server_id]
        return gone

    def forgive(self, gap_ms: int) -> None:
        """Extends every lease by a time in which this process was suspended."""
        for server in self:
            if not server.lapsed:
                server.expires_ms += gap_ms
