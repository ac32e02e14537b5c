"""Start of the HTTP port of the metrics of a serving process."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from queryable_state.server.metrics.metrics_server import MetricsServer
from queryable_state.server.metrics.scrape_access import ScrapeAccess
from queryable_state.server.security.access.protected_mode import check_listener
from queryable_state.server.serving.ports import NoFreePortError, bind

if TYPE_CHECKING:
    from contextlib import AsyncExitStack

    from queryable_state.server.metrics.registry import MetricsRegistry
    from queryable_state.server.security.access.gate import Gate
    from queryable_state.server.security.server_tls import ServerTls
    from queryable_state.server.serving.ports import PortSpec

_log = logging.getLogger(__name__)


def open_metrics_port(
    registry: MetricsRegistry,
    spec: PortSpec | None,
    host: str,
    stack: AsyncExitStack,
    *,
    tls: ServerTls | None,
    gate: Gate | None,
    insecure: bool,
) -> int:
    """Serves the metrics until `stack` ends; returns the port.

    0 if `spec` is None, or if none of its ports is free, which is logged: state is served without
    metrics, too. Raises `InvalidRequestError` for a host that other machines reach, unless there
    is TLS and a gate, or it is insecure. Called on the event loop of the gate.
    """
    if spec is None:
        return 0
    check_listener(
        host,
        what="metrics port",
        encrypted=tls is not None,
        authenticated=gate is not None,
        insecure=insecure,
    )
    authorize = None if gate is None else ScrapeAccess(gate.access)
    server = MetricsServer(registry.text, tls=tls, authorize=authorize)
    try:
        port = bind(server.add_port, spec, host, what="metrics port")
    except NoFreePortError as taken:
        _log.warning("this process serves no metrics: %s", taken)
        return 0
    stack.callback(server.close)
    server.start()
    return port
