"""HTTP port of the driver's metrics."""

from __future__ import annotations

from typing import TYPE_CHECKING

from queryable_state.server.metrics.access_thread import AccessThread
from queryable_state.server.metrics.metrics_port import open_metrics_port
from queryable_state.server.metrics.registry import MetricsRegistry
from queryable_state.server.security.server_tls import ServerTls
from queryable_state.server.serving.ports import SETTING_PREFIX, frame_ports
from queryable_state.wire.addresses import join_address

if TYPE_CHECKING:
    from contextlib import ExitStack

    from queryable_state.server.coordinator.settings import CoordinatorSettings
    from queryable_state.server.metrics.collectors.driver_metrics import DriverMetrics


class DriverMetricsPort:
    """Serves the metrics of one coordinator, if a port is set."""

    def __init__(self, settings: CoordinatorSettings, metrics: DriverMetrics) -> None:
        self._settings = settings
        self.registry = MetricsRegistry()
        self.registry.add(metrics.collect)
        self.address = ""
        """HOST:PORT on which it listens; empty: there is none."""

    def open(self, stack: ExitStack) -> None:
        """Serves until `stack` ends; raises `InvalidRequestError` in protected mode."""
        settings = self._settings
        spec = frame_ports(settings.driver_metrics_ports, SETTING_PREFIX + "driver_metrics_ports")
        if spec is None:
            return
        authorize = None
        if settings.access.authenticates:
            access = AccessThread(settings.access)
            stack.callback(access.close)
            authorize = access.authorize
        port = open_metrics_port(
            self.registry,
            spec,
            settings.host,
            stack,
            tls=ServerTls.of(settings.tls),
            authorize=authorize,
            insecure=settings.insecure,
        )
        self.address = join_address(settings.host, port) if port else ""
