"""A placement and its servers on a clock moved by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING

from queryable_state.internal.v1 import coordinator_pb2
from queryable_state.server.coordinator.model.placement import Placement
from queryable_state.server.coordinator.model.servers import Server, ServerTable

if TYPE_CHECKING:
    from queryable_state.server.coordinator.model.operators import Operator


LEASE_MS, MARGIN_MS = 5_000, 500
QUERY, RUN, NEXT_RUN = b"q" * 16, b"r" * 16, b"s" * 16


class Cluster:
    """A placement and its servers, with time moved by hand."""

    def __init__(self) -> None:
        self.now_ms = 0
        self.servers = ServerTable(lease_ms=LEASE_MS, margin_ms=MARGIN_MS)
        self.placement = Placement(self.servers, version=1)

    def register(self, server_id: str, executor_id: str = "") -> Server:
        request = coordinator_pb2.RegisterServerRequest(
            server_id=server_id,
            executor_id=executor_id or f"executor of {server_id}",
            backend_address=f"{server_id}:1",
        )
        server, gone = self.servers.register(request, self.now_ms)
        for old in gone:
            self.placement.free(old.server_id)
        return server

    def operator(self, parallelism: int = 4, run_id: bytes = RUN) -> Operator:
        return self.placement.declare(QUERY, "op", parallelism, 128, run_id)

    def assign(self, index: int, asker: str, *, executors: int = 1, not_server: str = "") -> str:
        operator = self.operator()
        self.servers.sweep(self.now_ms)
        settled = self.placement.reachable_owner(operator, index, not_server, self.now_ms)
        if settled is not None:
            return settled.server_id
        server = self.servers.get(asker)
        return self.placement.assign(operator, index, server, executors, self.now_ms).server_id


def opened(cluster: Cluster, index: int, server: str, batch: int, first: int = 0) -> int:
    opening = cluster.placement.open_empty(cluster.operator(), index, server, batch, first)
    return opening.complete_since


def move(cluster: Cluster, index: int, to: str) -> None:
    owner = cluster.placement.owner(cluster.operator(), index)
    assert owner is not None
    cluster.servers.remove(owner.server_id)
    cluster.placement.free(owner.server_id)
    cluster.register(to)
    cluster.assign(index, to)
