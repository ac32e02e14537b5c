"""State servers and their leases, as the coordinator knows them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from queryable_state.v1 import status_pb2
from queryable_state.wire.keys.key_groups import key_group_range

if TYPE_CHECKING:
    from queryable_state.server.coordinator.model.servers import Server
    from queryable_state.server.coordinator.model.state import CoordinatorState


class ServerList:
    """Lists the state servers. Thread-safe, no I/O."""

    def __init__(self, state: CoordinatorState) -> None:
        self._state = state

    def list_servers(
        self, _request: status_pb2.ListServersRequest
    ) -> status_pb2.ListServersResponse:
        """The servers, by registration."""
        state = self._state
        with state.transaction() as now_ms:
            wall_ms = state.wall_ms()
            return status_pb2.ListServersResponse(
                servers=[self._status(server, now_ms, wall_ms) for server in state.servers],
                as_of_ms=wall_ms,
            )

    def _status(self, server: Server, now_ms: int, wall_ms: int) -> status_pb2.ServerStatus:
        ago_ms = now_ms - server.renewed_ms
        return status_pb2.ServerStatus(
            server_id=server.server_id,
            executor_id=server.executor_id,
            host=server.query_address.rpartition(":")[0],
            query_address=server.query_address,
            proxy_address=server.proxy_address,
            backend_address=server.backend_address,
            frames=server.frames,
            pid=server.pid,
            log_file=server.log_file,
            lease=_lease(server, now_ms),
            registered_at_ms=wall_ms - (now_ms - server.registered_ms),
            renewed_at_ms=wall_ms - ago_ms,
            renewed_ago_ms=ago_ms,
            ended_at_ms=wall_ms - (now_ms - server.expires_ms) if server.lapsed else 0,
            staged_bytes=server.staged_bytes,
            key_groups=self._key_groups(server),
        )

    def _key_groups(self, server: Server) -> int:
        total = 0
        for operator in self._state.placement:
            for index in operator.owned_by(server.server_id):
                first, last = key_group_range(index, operator.parallelism, operator.max_parallelism)
                total += last - first + 1
        return total


def _lease(server: Server, now_ms: int) -> status_pb2.ServerStatus.Lease.ValueType:
    if server.lapsed:
        return status_pb2.ServerStatus.LOST
    if now_ms >= server.expires_ms:
        return status_pb2.ServerStatus.EXPIRED
    return status_pb2.ServerStatus.HELD
