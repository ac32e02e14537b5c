"""Clients for tests, and waiting for what they cause."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.waiting import DEADLINE_S, eventually

from queryable_state.client import QueryableStateClient

if TYPE_CHECKING:
    from queryable_state.server.testing.cluster import InProcessCluster


def client_of(
    address: str, *, direct: bool = True, timeout_s: float = DEADLINE_S, unpickle: bool = False
) -> QueryableStateClient:
    host, _, port = address.rpartition(":")
    return QueryableStateClient(
        host, int(port), direct=direct, timeout_s=timeout_s, unpickle=unpickle
    )


async def until_direct(client: QueryableStateClient, cluster: InProcessCluster) -> None:
    """Waits until the client has a connection to every owner."""
    await client.get_kv_states("sensors", "last", [f"sensor_{number}" for number in range(100)])
    dispatcher = client._opened
    assert dispatcher is not None
    pool = dispatcher.pool._by_address
    for server in cluster.servers:
        address = server.addresses.query
        await eventually(lambda address=address: pool[address].connection is not None)  # type: ignore[misc]
