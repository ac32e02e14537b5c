"""State servers and their leases, as the coordinator knows them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from queryable_state.v1 import status_pb2
from queryable_state.wire.keys.key_groups import key_group_range

if TYPE_CHECKING:
    from queryable_state.server.coordinator.model.departed.departures import Departure
    from queryable_state.server.coordinator.model.servers import Server
    from queryable_state.server.coordinator.model.state import CoordinatorState
    from queryable_state.server.coordinator.status.load_table import LoadTable


class ServerList:
    """Lists the state servers. Thread-safe, no I/O."""

    def __init__(self, state: CoordinatorState, load: LoadTable) -> None:
        self._state = state
        self._load = load

    def list_servers(
        self, _request: status_pb2.ListServersRequest
    ) -> status_pb2.ListServersResponse:
        """Live servers by registration, then lost ones, newest first."""
        state = self._state
        with state.transaction() as now_ms:
            wall_ms = state.wall_ms()
            return status_pb2.ListServersResponse(
                servers=[
                    *(
                        self._status(server, now_ms, wall_ms)
                        for server in state.servers
                        if not server.lapsed
                    ),
                    *(self._departed(each, now_ms, wall_ms) for each in state.departed),
                ],
                as_of_ms=wall_ms,
            )

    def _status(self, server: Server, now_ms: int, wall_ms: int) -> status_pb2.ServerStatus:
        ago_ms = now_ms - server.renewed_ms
        refused = self._load.of_process(server.server_id)
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
            lease=(
                status_pb2.ServerStatus.HELD
                if now_ms < server.expires_ms
                else status_pb2.ServerStatus.EXPIRED
            ),
            registered_at_ms=wall_ms - (now_ms - server.registered_ms),
            renewed_at_ms=wall_ms - ago_ms,
            renewed_ago_ms=ago_ms,
            staged_bytes=server.staged_bytes,
            key_groups=self._key_groups(server),
            refused=refused.refused,
            refused_last_minute=sum(each.count for each in refused.refusals),
            # The reports begin with the most.
            most_refused=refused.refusals[0].caller if refused.refusals else "",
        )

    def _departed(self, departure: Departure, now_ms: int, wall_ms: int) -> status_pb2.ServerStatus:
        now = self._state.departed.succession(departure)
        status = self._status(departure.server, now_ms, wall_ms)
        status.lease = departure.how
        status.ended_at_ms = departure.at_ms
        status.staged_bytes = 0
        status.key_groups = now.key_groups
        status.successors.extend(now.successors)
        return status

    def _key_groups(self, server: Server) -> int:
        total = 0
        for operator in self._state.placement:
            for index in operator.owned_by(server.server_id):
                first, last = key_group_range(index, operator.parallelism, operator.max_parallelism)
                total += last - first + 1
        return total
