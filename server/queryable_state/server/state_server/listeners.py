"""The listeners of a state server: its six ports, bound together."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from queryable_state.server.metrics.collectors.port_metrics import PortMetrics
from queryable_state.server.metrics.collectors.process_metrics import ProcessMetrics
from queryable_state.server.metrics.collectors.proxy_metrics import ProxyMetrics
from queryable_state.server.metrics.metrics_port import open_metrics_port
from queryable_state.server.metrics.scrape_access import scrape_access
from queryable_state.server.query.local_router import LocalRouter
from queryable_state.server.query.proxy.location_table import LocationTable
from queryable_state.server.query.proxy.proxy_router import ProxyRouter
from queryable_state.server.query.router import ServiceInfo
from queryable_state.server.security.access.gate_opener import open_gate
from queryable_state.server.security.access.protected_mode import check_listener
from queryable_state.server.security.server_tls import ServerTls, port_adder
from queryable_state.server.serving.advertised import Advertised
from queryable_state.server.serving.byte_budget import ClientBudgets
from queryable_state.server.serving.ports import bind
from queryable_state.server.serving.query_server import QueryServer
from queryable_state.server.state_server.base.server_directory import ServerAddresses
from queryable_state.server.state_server.base.stated_ports import StatedPorts
from queryable_state.v1 import query_pb2
from queryable_state.wire.security.signed_calls import CallSigner

if TYPE_CHECKING:
    from contextlib import AsyncExitStack

    import grpc.aio

    from queryable_state.server.coordinator_client import CoordinatorClient
    from queryable_state.server.metrics.registry import MetricsRegistry
    from queryable_state.server.process.loop_watchdog import LoopWatchdog
    from queryable_state.server.security.access.gate import Gate
    from queryable_state.server.state_server.queries.state_reader import StateReader
    from queryable_state.server.state_server.settings import StateServerSettings
    from queryable_state.wire.security.connector import Connector


def bind_ports(
    settings: StateServerSettings,
    engine: StateReader,
    coordinator: CoordinatorClient,
    backend: grpc.aio.Server,
    stack: AsyncExitStack,
    *,
    server_id: str,
    connector: Connector,
    metrics: MetricsRegistry,
    watchdog: LoopWatchdog | None,
    replaced: ServerAddresses | None,
) -> tuple[ServerAddresses, list[QueryServer], Gate | None]:
    """Binds the six ports; returns the addresses, the two public servers and their gate.

    `stack` closes what answers them; the caller starts and stops the servers. The port of the
    metrics, which gets collectors of the listeners here, answers at once. The ports of `replaced`
    are tried first. Raises `InvalidRequestError` if a setting has no free port.
    """
    tls = ServerTls.of(settings.tls)
    locations = LocationTable(coordinator)
    stack.push_async_callback(locations.aclose)
    local = LocalRouter(engine, locations)
    proxy = ProxyRouter(
        locations,
        server_id=server_id,
        engine=engine,
        signer=CallSigner(settings.secret),
        connector=connector,
        default_deadline_ms=settings.default_deadline_ms,
    )
    budgets = ClientBudgets(settings.limits.held_bytes)
    gate = open_gate(settings.access, stack, server_id=server_id, secret=settings.secret)
    # Another process may take ports at the same time: the first one decides the place.
    ports, advertised = StatedPorts.of(settings), Advertised(host=settings.advertised_host)
    if replaced is not None:
        ports = ports.at_place_of(replaced)
    servers = []
    for router, role, what in (
        (local, query_pb2.OWNER, "query port"),
        (proxy, query_pb2.PROXY, "proxy port"),
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
            tls=tls,
            gate=gate,
            insecure=settings.access.insecure,
        )
        owner = role == query_pb2.OWNER
        port = server.bind(
            ports.query if owner else ports.proxy,
            settings.host,
            frames=ports.query_frames if owner else ports.proxy_frames,
            advertised=advertised,
            what=what,
        )
        if owner:
            ports = ports.beginning_at(ports.query.index(port))
        servers.append(server)
    check_listener(
        settings.host,
        what="task port",
        encrypted=tls is not None,
        authenticated=None,
        insecure=settings.access.insecure,
    )
    task_port = bind(port_adder(backend, tls), ports.tasks, settings.host, what="task port")
    metrics.add(
        PortMetrics(
            {"query": servers[0].traffic, "proxy": servers[1].traffic},
            lambda state_id: engine.registration(state_id) or locations.registration(state_id),
        ).collect
    )
    metrics.add(ProxyMetrics(proxy).collect)
    metrics.add(ProcessMetrics(budgets, gate, watchdog).collect)
    metrics_port = open_metrics_port(
        metrics,
        ports.metrics,
        settings.host,
        stack,
        tls=tls,
        authorize=scrape_access(gate),
        insecure=settings.access.insecure,
    )
    addresses = ServerAddresses(
        server_id=server_id,
        pid=os.getpid(),
        query=servers[0].address,
        proxy=servers[1].address,
        backend=advertised.address(settings.host, task_port),
        metrics=advertised.address(settings.host, metrics_port) if metrics_port else "",
    )
    return addresses, servers, gate
