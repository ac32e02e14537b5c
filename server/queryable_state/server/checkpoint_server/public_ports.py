"""The public ports of a server of checkpointed state: queries, frames, REST and the page."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from queryable_state.server.metrics.collectors.port_metrics import PortMetrics
from queryable_state.server.metrics.collectors.process_metrics import ProcessMetrics
from queryable_state.server.metrics.registry import MetricsRegistry
from queryable_state.server.query.router import ServiceInfo
from queryable_state.server.security.access.gate_opener import open_gate
from queryable_state.server.serving.advertised import Advertised
from queryable_state.server.serving.byte_budget import ClientBudgets
from queryable_state.server.serving.lame_duck import be_lame_duck
from queryable_state.server.serving.ports import PortSpec, frame_ports
from queryable_state.server.serving.query_server import QueryServer
from queryable_state.v1 import query_pb2

if TYPE_CHECKING:
    import contextlib

    from queryable_state.server.metrics.state_names import FindState
    from queryable_state.server.process.loop_watchdog import LoopWatchdog
    from queryable_state.server.query.router import Router
    from queryable_state.server.security.server_tls import ServerTls
    from queryable_state.server.serving.graceful_shutdown import GracefulShutdown
    from queryable_state.server.settings.checkpoint_server_settings import CheckpointServerSettings
    from queryable_state.server.web.api.job_control import JobOperations
    from queryable_state.v1 import registration_pb2


class PublicPorts:
    """Serves one router. Call `bind`, then `start`; the exit stack closes the ports."""

    def __init__(
        self,
        router: Router,
        settings: CheckpointServerSettings,
        stack: contextlib.AsyncExitStack,
        shutdown: GracefulShutdown,
        *,
        server_id: str,
        tls: ServerTls | None,
        find_state: FindState,
        watchdog: LoopWatchdog | None,
        secret: str = "",
    ) -> None:
        """`secret`: with which other servers sign their calls; empty: no server calls."""
        self.web_address = ""
        """URL of REST and the page, once started; empty if `web` is off."""
        self._settings, self._stack, self._shutdown, self._tls = settings, stack, shutdown, tls
        self._gate = open_gate(settings.access, stack, server_id=server_id, secret=secret)
        self._budgets = ClientBudgets(settings.limits.held_bytes)
        self._advertised = Advertised.parse(
            settings.advertised, "--advertise", settings.advertised_frame_port
        )
        self._server = QueryServer(
            router,
            ServiceInfo(
                server_id=server_id,
                role=query_pb2.CHECKPOINT,
                limits=settings.limits,
                default_deadline_ms=settings.default_deadline_ms,
                plain_grpc=settings.plain_grpc,
            ),
            self._budgets,
            tls=tls,
            gate=self._gate,
            insecure=settings.access.insecure,
        )
        self.metrics = MetricsRegistry()
        """The metrics of this process."""
        self.metrics.add(PortMetrics({"server": self._server.traffic}, find_state).collect)
        self.metrics.add(ProcessMetrics(self._budgets, self._gate, watchdog).collect)
        stack.push_async_callback(self._server.aclose, shutdown, settings.drain_timeout_s)

    @property
    def address(self) -> str:
        """HOST:PORT at which clients reach the query port, once bound."""
        return self._server.address

    @property
    def frames(self) -> registration_pb2.FrameEndpoint:
        """The frame port, once bound."""
        return self._server.frames

    def bind(self) -> None:
        """Binds the query port and the frame port; raises as `QueryServer.bind`."""
        settings = self._settings
        self._server.bind(
            PortSpec.parse(settings.ports, "--port"),
            settings.host,
            frames=frame_ports(settings.frame_ports, "--frame-port"),
            advertised=self._advertised,
            what="checkpoint server port",
        )

    async def start(self, operations: JobOperations, *, ready: bool = True) -> None:
        """Answers from now on; `operations` are those that REST offers.

        Without `ready` the health is NOT_SERVING until `be_ready`.
        """
        settings = self._settings
        await self._server.start()
        if settings.web != "off":
            # aiohttp takes a tenth of a second to import.
            from queryable_state.server.web.web_port import start_web_port

            self.web_address = await start_web_port(
                self._stack,
                self._server,
                operations,
                self.metrics,
                settings,
                self._shutdown,
                gate=self._gate,
                budgets=self._budgets,
                tls=self._tls,
                advertised=self._advertised,
            )
        if ready:
            self.be_ready()

    def be_ready(self) -> None:
        """Sets the health to SERVING, until the process is told to end."""
        self._server.set_serving(True)
        duck = asyncio.create_task(
            be_lame_duck(self._shutdown, [self._server], self._settings.lame_duck_s)
        )
        self._stack.push_async_callback(asyncio.wait, [duck])
        self._stack.callback(duck.cancel)
