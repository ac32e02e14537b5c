"""Standalone proxy: a server without state that answers queries for every key."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import uuid
from typing import TYPE_CHECKING, Self

from queryable_state.server.load.load_reporter import LoadReporter
from queryable_state.server.metrics.collectors.port_metrics import PortMetrics
from queryable_state.server.metrics.collectors.process_metrics import ProcessMetrics
from queryable_state.server.metrics.collectors.proxy_metrics import ProxyMetrics
from queryable_state.server.metrics.metrics_port import open_metrics_port
from queryable_state.server.metrics.registry import MetricsRegistry
from queryable_state.server.metrics.scrape_access import scrape_access
from queryable_state.server.query.proxy.coordinator_endpoints import CoordinatorEndpoints
from queryable_state.server.query.proxy.followed_coordinator import FollowedCoordinator
from queryable_state.server.query.proxy.location_table import LocationTable
from queryable_state.server.query.proxy.proxy_router import ProxyRouter
from queryable_state.server.query.router import ServiceInfo
from queryable_state.server.security.access.gate_opener import open_gate
from queryable_state.server.security.server_tls import ServerTls
from queryable_state.server.serving.advertised import Advertised
from queryable_state.server.serving.byte_budget import ClientBudgets
from queryable_state.server.serving.lame_duck import be_lame_duck
from queryable_state.server.serving.ports import PortSpec, frame_ports
from queryable_state.server.serving.public_server import PublicServer
from queryable_state.server.serving.query_server import QueryServer
from queryable_state.v1 import query_pb2
from queryable_state.wire.addresses import join_address
from queryable_state.wire.errors import InvalidRequestError, QueryableStateError

if TYPE_CHECKING:
    from queryable_state.server.process.loop_watchdog import LoopWatchdog
    from queryable_state.server.serving.graceful_shutdown import GracefulShutdown
    from queryable_state.server.settings.proxy_settings import ProxySettings


_log = logging.getLogger(__name__)

# Interval and timeout of health checks of the coordinator.
_HEALTH_CHECK_S = 0.5
_HEALTH_TIMEOUT_S = 2.0


class ProxyServer(PublicServer):
    """Answers every key of every job of one coordinator while `async with` lasts.

    Entering calls the coordinator and binds the port, so a wrong secret or address is raised at
    once, unless the settings say to wait for a driver. A driver that starts again is found by its
    endpoint file or its addresses. The health status is SERVING while the coordinator answers. The
    caller may pass a `shutdown` to end the proxy.
    """

    def __init__(
        self,
        settings: ProxySettings,
        *,
        shutdown: GracefulShutdown | None = None,
        watchdog: LoopWatchdog | None = None,
    ) -> None:
        super().__init__(shutdown, watchdog)
        self.settings = settings
        self.metrics = MetricsRegistry()
        """The metrics of this proxy; `metrics.text()` is what a scraper gets."""
        self.metrics_address = ""
        """HOST:PORT on which it serves the metrics, once entered; empty: it has no such port."""
        self.server_id = f"proxy-{uuid.uuid4().hex[:12]}"
        self._address: str | None = None

    @property
    def address(self) -> str:
        """HOST:PORT at which others reach the proxy, once entered."""
        if self._address is None:
            raise InvalidRequestError("this proxy has no address: it has not started")
        return self._address

    async def __aenter__(self) -> Self:
        settings = self.settings
        async with contextlib.AsyncExitStack() as stack:
            tls, connector = ServerTls.of(settings.tls), settings.tls.connector()
            coordinator = FollowedCoordinator(
                CoordinatorEndpoints(
                    settings.coordinators,
                    settings.secret,
                    settings.endpoint,
                    settings.storage_options,
                ),
                connector,
            )
            stack.push_async_callback(coordinator.aclose)
            found = await self._find(coordinator)
            locations = LocationTable(coordinator)
            stack.push_async_callback(locations.aclose)
            router = ProxyRouter(
                locations,
                server_id=self.server_id,
                signer=coordinator.signer,
                connector=connector,
                default_deadline_ms=settings.default_deadline_ms,
            )
            stack.push_async_callback(router.aclose)
            gate = open_gate(settings.access, stack, server_id=self.server_id)
            LoadReporter(self.server_id, coordinator.report_load, gate=gate).start(stack)
            budgets = ClientBudgets(settings.limits.held_bytes)
            server = QueryServer(
                router,
                ServiceInfo(
                    server_id=self.server_id,
                    role=query_pb2.PROXY,
                    limits=settings.limits,
                    default_deadline_ms=settings.default_deadline_ms,
                    plain_grpc=settings.plain_grpc,
                ),
                budgets,
                tls=tls,
                gate=gate,
                insecure=settings.access.insecure,
            )
            stack.push_async_callback(server.aclose, self.shutdown, settings.drain_timeout_s)
            advertised = Advertised.parse(
                settings.advertised, "--advertise", settings.advertised_frame_port
            )
            server.bind(
                PortSpec.parse(settings.ports, "--port"),
                settings.host,
                frames=frame_ports(settings.frame_ports, "--frame-port"),
                advertised=advertised,
                what="proxy port",
            )
            self._address = server.address
            self.metrics.add(PortMetrics({"proxy": server.traffic}, locations.registration).collect)
            self.metrics.add(ProxyMetrics(router).collect)
            self.metrics.add(ProcessMetrics(budgets, gate, self._watchdog).collect)
            metrics_port = open_metrics_port(
                self.metrics,
                frame_ports(settings.metrics_ports, "--metrics-port"),
                settings.host,
                stack,
                tls=tls,
                authorize=scrape_access(gate),
                insecure=settings.access.insecure,
            )
            if metrics_port:
                self.metrics_address = join_address(settings.host, metrics_port)
            await server.start()
            if settings.web != "off":
                # aiohttp takes a tenth of a second to import.
                from queryable_state.server.web.web_port import start_web_port

                self.web_address = await start_web_port(
                    stack,
                    server,
                    coordinator,
                    self.metrics,
                    settings,
                    self.shutdown,
                    gate=gate,
                    budgets=budgets,
                    tls=tls,
                    advertised=advertised,
                )
            server.set_serving(found)
            for background in (
                be_lame_duck(self.shutdown, [server], settings.lame_duck_s),
                _follow_coordinator(coordinator, locations, server),
            ):
                task = asyncio.create_task(background)
                stack.push_async_callback(asyncio.wait, [task])
                stack.callback(task.cancel)
            self._stack = stack.pop_all()
        return self

    async def _find(self, coordinator: FollowedCoordinator) -> bool:
        """True if the coordinator answers; without it only a proxy that waits for one starts."""
        try:
            await coordinator.connect()
        except QueryableStateError as failure:
            if not self.settings.wait_for_driver:
                raise
            _log.warning("the proxy starts and waits for a driver: %s", failure)
            return False
        return True


async def _follow_coordinator(
    coordinator: FollowedCoordinator, locations: LocationTable, server: QueryServer
) -> None:
    """Sets the health status by whether the coordinator answers, and keeps what it knows."""
    reported = ""
    while True:
        await asyncio.sleep(_HEALTH_CHECK_S)
        try:
            jobs = await coordinator.list_jobs(
                query_pb2.ListJobsRequest(), timeout_s=_HEALTH_TIMEOUT_S
            )
        except QueryableStateError as failure:
            if failure.message != reported:
                _log.warning("the coordinator does not answer: %s", failure)
            reported = failure.message
            server.set_serving(False)
        else:
            reported = ""
            server.set_serving(True)
            await locations.refresh(jobs)
