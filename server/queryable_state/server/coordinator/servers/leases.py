"""Leases of the state servers: registration, heartbeats and departure."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from queryable_state.internal.v1 import backend_pb2, coordinator_pb2

if TYPE_CHECKING:
    from collections.abc import Collection

    from queryable_state.server.coordinator.model.servers import Server
    from queryable_state.server.coordinator.model.state import CoordinatorState

_log = logging.getLogger(__name__)


class Leases:
    """Grants, renews and ends leases. Thread-safe, no I/O."""

    def __init__(self, state: CoordinatorState) -> None:
        self._state = state

    def register(self, request: coordinator_pb2.RegisterServerRequest) -> coordinator_pb2.Lease:
        """Grants a first lease, and frees the subtasks of servers that it replaces."""
        state = self._state
        with state.transaction() as now:
            state.check_no_stall()
            server, gone = state.servers.register(request, now)
            for old in gone:
                state.forget_server(old.server_id)
            state.sweep(now)
            lease = self._lease(server)
        place = "".join(f" in place of {old.server_id}, which is lost" for old in gone)
        _log.info(
            "state server %s of executor %s registered%s: queries %s, proxy %s, backend %s, log %s",
            request.server_id,
            request.executor_id,
            place,
            request.query_address,
            request.proxy_address,
            request.backend_address,
            request.log_file,
        )
        return lease

    def heartbeat(self, request: coordinator_pb2.HeartbeatRequest) -> coordinator_pb2.Lease:
        """Renews a lease, and records the versions the server has committed."""
        state = self._state
        with state.transaction() as now:
            state.check_no_stall()
            server = state.servers.renew(request.server_id, now)
            server.staged_bytes = request.staged_bytes
            server.taken_version = max(server.taken_version, request.placement_version)
            state.sweep(now)
            for known in request.committed:
                state.commits.ack(known.query_id, server.server_id, known.version)
                state.advance_min_acked(known.query_id)
            return self._lease(server)

    def deregister(self, server_id: str) -> None:
        """Frees the subtasks of a drained server; does nothing for an unknown server."""
        state = self._state
        with state.transaction():
            if state.servers.remove(server_id):
                state.departures += 1
                state.forget_server(server_id)

    def tick(self) -> None:
        """Expires leases and forgets long lapsed servers; called regularly."""
        state = self._state
        with state.transaction() as now:
            for gone in state.servers.remove_long_lapsed(now):
                state.forget_server(gone.server_id)

    def backend_addresses(self) -> set[str]:
        """HOST:PORT of `StateBackend` of every server known."""
        with self._state.transaction():
            return {server.backend_address for server in self._state.servers}

    def proxy_addresses(self) -> list[str]:
        """HOST:PORT of the proxies of the servers that hold a lease."""
        state = self._state
        with state.transaction() as now:
            holding = state.servers.holding(now)
            return [server.proxy_address for server in holding if server.proxy_address]

    def wait_until_left(self, backend_addresses: Collection[str], timeout_s: float) -> set[str]:
        """Waits for servers to deregister; returns those that have not within the timeout."""
        state = self._state

        def staying() -> set[str]:
            return {s.backend_address for s in state.servers} & set(backend_addresses)

        with state.transaction():
            state.wait_for(lambda: not staying(), timeout_s)
            return staying()

    def _lease(self, server: Server) -> coordinator_pb2.Lease:
        state = self._state
        owned = list(state.placement.opened_by(server.server_id))
        queries = dict.fromkeys(operator.query_id for operator, _ in owned)
        versions = (state.commits.published_version(query_id) for query_id in queries)
        return coordinator_pb2.Lease(
            duration_ms=state.servers.lease_ms,
            placement_version=state.placement.version,
            committed=[version for version in versions if version],
            owned=[
                backend_pb2.Subtask(
                    query_id=operator.query_id,
                    operator_uid=operator.uid,
                    index=index,
                    parallelism=operator.parallelism,
                    max_parallelism=operator.max_parallelism,
                )
                for operator, index in owned
            ],
        )
