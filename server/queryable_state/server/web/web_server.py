"""Web port of a process: REST, health and the page, by aiohttp."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from aiohttp import web

from queryable_state.server.security.access.protected_mode import check_listener
from queryable_state.server.serving.ports import PortSpec, bind
from queryable_state.server.serving.sockets.listening_socket import listening_socket
from queryable_state.server.web.http.acceptor import HttpAcceptor
from queryable_state.server.web.http.bodies import Bodies
from queryable_state.server.web.http.origins import Origins
from queryable_state.server.web.web_application import WebApplication
from queryable_state.wire.addresses import is_loopback

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

    from queryable_state.server.config.limits import Limits
    from queryable_state.server.security.server_tls import ServerTls
    from queryable_state.server.serving.advertised import Advertised
    from queryable_state.server.serving.byte_budget import ClientBudgets
    from queryable_state.server.serving.graceful_shutdown import GracefulShutdown
    from queryable_state.server.settings.shared_settings import WebSettings
    from queryable_state.server.web.api.job_control import JobControl
    from queryable_state.server.web.in_process_service import InProcessService
    from queryable_state.server.web.scrapes import Scrapes

_LINE_BYTES = 8190

# aiohttp logs each malformed request with a traceback; refusals and defects of the handlers are
# logged, at a bounded rate, where they become answers.
_unlogged = logging.getLogger(f"{__name__}.malformed_requests")
_unlogged.disabled = True

_HEADERS = 64


class WebServer:
    """Listens on the web port. Call `bind`, then `start`, then `aclose`."""

    def __init__(
        self,
        service: InProcessService,
        jobs: JobControl,
        scrapes: Scrapes,
        settings: WebSettings,
        *,
        limits: Limits,
        budgets: ClientBudgets,
        tls: ServerTls | None,
        insecure: bool,
        is_serving: Callable[[], bool],
    ) -> None:
        """`tls`: None serves in clear text; `insecure`: listens beyond the loopback address even
        without it; `is_serving`: whether the process can answer queries."""
        self._service = service
        self._jobs = jobs
        self._scrapes = scrapes
        self._settings = settings
        self._limits = limits
        self._budgets = budgets
        self._tls = tls
        self._insecure = insecure
        self._is_serving = is_serving
        self._listening: socket.socket | None = None
        self._runner: web.AppRunner | None = None
        self._acceptor: HttpAcceptor | None = None
        self._host = ""
        self.address = ""
        """URL of the page and the REST paths; empty before `bind`."""

    def bind(self, host: str, advertised: Advertised) -> None:
        """Binds the first free port of `web_ports`.

        Raises `InvalidRequestError` for a host that other machines reach, unless the server has
        TLS and authenticates callers, or is insecure.
        """
        check_listener(
            host,
            what="web port",
            encrypted=self._tls is not None,
            authenticated=not self._service.is_open,
            insecure=self._insecure,
        )
        spec = PortSpec.parse(self._settings.web_ports, "web_ports (--web-port)")
        port = bind(self._add_port, spec, host, what="web port")
        self._host = host
        scheme = "http" if self._tls is None else "https"
        self.address = f"{scheme}://{advertised.address(host, port)}"

    async def start(self) -> None:
        """Starts to answer; call `bind` before."""
        assert self._listening is not None
        timeout_s = self._limits.read_timeout_s
        application = WebApplication(
            self._service,
            self._jobs,
            Bodies(self._budgets, timeout_s=timeout_s, request_bytes=self._limits.request_bytes),
            Origins(
                self._settings.allowed_origins,
                loopback_only=self._service.is_open and is_loopback(self._host),
            ),
            self._scrapes,
            limits=self._limits,
            is_serving=self._is_serving,
        ).application()
        runner = self._runner = web.AppRunner(
            application,
            access_log=None,
            logger=_unlogged,
            # Also of a new connection, until the header of its first request is there.
            keepalive_timeout=timeout_s,
            lingering_time=1.0,
            max_line_size=_LINE_BYTES,
            max_field_size=_LINE_BYTES,
            max_headers=_HEADERS,
            # Answers end with their time limits before.
            shutdown_timeout=1.0,
        )
        await runner.setup()
        assert runner.server is not None
        self._acceptor = HttpAcceptor(
            self._listening,
            runner.server,
            most=self._limits.connections,
            context=None if self._tls is None else self._tls.context(),
            handshake_timeout_s=timeout_s,
        )

    async def aclose(self, shutdown: GracefulShutdown, drain_timeout_s: float) -> None:
        """Closes the port, answers the requests it has read within the drain time. Idempotent."""
        if self._acceptor is not None:
            self._acceptor.close()
        runner, self._runner = self._runner, None
        if runner is not None:
            async with shutdown.limited(drain_timeout_s):
                await runner.cleanup()
        listening, self._listening = self._listening, None
        if listening is not None:
            listening.close()

    def _add_port(self, address: str) -> int:
        self._listening = listening_socket(address)
        port: int = self._listening.getsockname()[1]
        return port
