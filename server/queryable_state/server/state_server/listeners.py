"""The ports of a state server."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from queryable_state.server.query.local_router import LocalRouter
from queryable_state.server.query.proxy.location_table import LocationTable
from queryable_state.server.query.proxy.proxy_router import ProxyRouter
from queryable_state.server.query.router import ServiceInfo
from queryable_state.server.security.access.gate_opener import open_gate
from queryable_state.server.serving.byte_budget import ClientBudgets
from queryable_state.server.serving.ports import SETTING_PREFIX, bind, frame_ports
from queryable_state.server.serving.query_server import QueryServer
from queryable_state.server.state_server.base.server_directory import ServerAddresses
from queryable_state.server.state_server.base.stated_ports import stated_ports
from queryable_state.v1 import query_pb2
from queryable_state.wire.addresses import join_address
from queryable_state.wire.security.signed_calls import CallSigner

if TYPE_CHECKING:
    from contextlib import AsyncExitStack

    import grpc.aio

    from queryable_state.server.coordinator_client import CoordinatorClient
    from queryable_state.server.settings import StateServerSettings
    from queryable_state.server.state_server.queries.state_reader import StateReader


def bind_ports(
    settings: StateServerSettings,
    engine: StateReader,
    coordinator: CoordinatorClient,
    backend: grpc.aio.Server,
    stack: AsyncExitStack,
    *,
    server_id: str,
) -> tuple[ServerAddresses, list[QueryServer]]:
    """Binds the ports; returns the addresses and the two public servers, of queries and proxy.

    `stack` gets what closes the routers; the caller starts and closes the servers.
    """
    locations = LocationTable(coordinator)
    stack.push_async_callback(locations.aclose)
    local = LocalRouter(engine, locations)
    proxy = ProxyRouter(
        locations,
        server_id=server_id,
        engine=engine,
        signer=CallSigner(settings.secret),
        default_deadline_ms=settings.default_deadline_ms,
    )
    budgets = ClientBudgets(settings.limits.held_bytes)
    gate = open_gate(settings.access, stack, server_id=server_id, secret=settings.secret)
    listeners = []
    query, proxied, internal = stated_ports(settings)
    for router, role, (what, ports) in (
        (local, query_pb2.OWNER, query),
        (proxy, query_pb2.PROXY, proxied),
    ):
        stack.push_async_callback(router.aclose)
        server = QueryServer(
            router,
            ServiceInfo(
                server_id=server_id,
                role=role,
                limits=settings.limits,
                default_deadline_ms=settings.default_deadline_ms,
                plain_grpc=settings.plain_grpc,
            ),
            budgets,
            gate=gate,
        )
        address = server.bind(
            ports,
            settings.host,
            frames=frame_ports(settings.frame_ports, SETTING_PREFIX + "frame_ports"),
            advertised_host=settings.advertised_host,
            what=what,
        )
        listeners.append((address, server))
    what, ports = internal
    backend_port = bind(backend.add_insecure_port, ports, settings.host, what=what)
    (query_address, query_server), (proxy_address, proxy_server) = listeners
    addresses = ServerAddresses(
        server_id=server_id,
        pid=os.getpid(),
        query=query_address,
        proxy=proxy_address,
        backend=join_address(settings.advertised_host or settings.host, backend_port),
    )
    return addresses, [query_server, proxy_server]
