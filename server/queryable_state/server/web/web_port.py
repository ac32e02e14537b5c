"""Start of the web port beside the query port of a process."""

from __future__ import annotations

import dataclasses
import logging
from typing import TYPE_CHECKING

from queryable_state.server.web.api.job_control import JobControl
from queryable_state.server.web.in_process_service import InProcessService
from queryable_state.server.web.scrapes import Scrapes
from queryable_state.server.web.web_server import WebServer

if TYPE_CHECKING:
    import contextlib

    from queryable_state.server.metrics.registry import MetricsRegistry
    from queryable_state.server.security.access.gate import Gate
    from queryable_state.server.security.server_tls import ServerTls
    from queryable_state.server.serving.advertised import Advertised
    from queryable_state.server.serving.byte_budget import ClientBudgets
    from queryable_state.server.serving.graceful_shutdown import GracefulShutdown
    from queryable_state.server.serving.query_server import QueryServer
    from queryable_state.server.settings.checkpoint_server_settings import CheckpointServerSettings
    from queryable_state.server.settings.proxy_settings import ProxySettings
    from queryable_state.server.web.api.job_control import JobOperations

_log = logging.getLogger(__name__)


async def start_web_port(
    stack: contextlib.AsyncExitStack,
    server: QueryServer,
    operations: JobOperations,
    metrics: MetricsRegistry,
    settings: ProxySettings | CheckpointServerSettings,
    shutdown: GracefulShutdown,
    *,
    gate: Gate | None,
    budgets: ClientBudgets,
    tls: ServerTls | None,
    advertised: Advertised,
) -> str:
    """Serves REST and the page from the service of `server` until `stack` ends; returns the URL."""
    web = WebServer(
        InProcessService(server.service, gate, default_deadline_ms=settings.default_deadline_ms),
        JobControl(operations, gate),
        Scrapes(metrics, gate),
        settings,
        limits=settings.limits,
        budgets=budgets,
        tls=tls,
        insecure=settings.access.insecure,
        is_serving=lambda: server.is_serving,
    )
    stack.push_async_callback(web.aclose, shutdown, settings.drain_timeout_s)
    # The advertised port is that of the gRPC port.
    web.bind(settings.host, dataclasses.replace(advertised, port=0))
    await web.start()
    _log.info("REST and the page are at %s", web.address)
    return web.address
