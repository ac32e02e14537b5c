"""Start of the HTTP port of the metrics of a process."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from queryable_state.server.metrics.metrics_server import MetricsServer
from queryable_state.server.security.access.protected_mode import check_listener
from queryable_state.server.serving.ports import NoFreePortError, bind

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AsyncExitStack, ExitStack

    from queryable_state.server.metrics.registry import MetricsRegistry
    from queryable_state.server.security.server_tls import ServerTls
    from queryable_state.server.serving.ports import PortSpec

_log = logging.getLogger(__name__)


def open_metrics_port(
    registry: MetricsRegistry,
    spec: PortSpec | None,
    host: str,
    stack: AsyncExitStack | ExitStack,
    *,
    tls: ServerTls | None,
    authorize: Callable[[str], None] | None,
    insecure: bool,
) -> int:
    """Serves the metrics until `stack` ends; returns the port.

    0 if `spec` is None, or if none of its ports is free, which is logged: state is served without
    metrics, too. `authorize` as for `MetricsServer`. Raises `InvalidRequestError` for a host that
    other machines reach, unless there are TLS and authorization, or it is insecure.
    """
    if spec is None:
        return 0
    check_listener(
        host,
        what="metrics port",
        encrypted=tls is not None,
        authenticated=authorize is not None,
        insecure=insecure,
    )
    server = MetricsServer(registry.text, tls=tls, authorize=authorize)
    try:
        port = bind(server.add_port, spec, host, what="metrics port")
    except NoFreePortError as taken:
        _log.warning("this process serves no metrics: %s", taken)
        return 0
    stack.callback(server.close)
    server.start()
    return port
