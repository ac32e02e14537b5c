"""REST and the page beside a driver."""

from __future__ import annotations

from typing import TYPE_CHECKING

from queryable_state.server.security.access.access_settings import AccessSettings
from queryable_state.server.settings.proxy_settings import ProxySettings
from queryable_state.server.web.web_process import WebProcess
from queryable_state.streaming.spark.shipped_files import access_on_this_machine
from queryable_state.wire.addresses import host_and_port
from queryable_state.wire.errors import InvalidRequestError

if TYPE_CHECKING:
    from pyspark import SparkContext

    from queryable_state.server.security.tls_settings import TlsSettings
    from queryable_state.server.settings.environment_settings import EnvironmentSettings


class DriverWeb:
    """The web process of an application, if its settings want one. Thread-safe."""

    def __init__(
        self,
        context: SparkContext,
        settings: EnvironmentSettings,
        *,
        coordinator_address: str,
        host: str,
        tls: TlsSettings,
    ) -> None:
        """Starts the process without waiting for it."""
        self._mode = settings.web
        self._process: WebProcess | None = None
        if _is_on(context, settings):
            self._process = WebProcess(_proxy_settings(settings, coordinator_address, host, tls))

    def address(self, timeout_s: float) -> str:
        """URL of REST and the page; waits for the start of the process.

        Raises InvalidRequestError if it is off or cannot start, RetryLaterError after `timeout_s`.
        """
        if self._process is None:
            raise InvalidRequestError(
                f"REST and the page are off: spark.queryable_state.web is {self._mode!r} (auto: "
                "as spark.ui.enabled); set it to on"
            )
        return self._process.address(timeout_s)

    def close(self) -> None:
        """Ends the process; idempotent."""
        if self._process is not None:
            self._process.close()


def _is_on(context: SparkContext, settings: EnvironmentSettings) -> bool:
    if settings.web != "auto":
        return settings.web == "on"
    return (context.getConf().get("spark.ui.enabled") or "true").lower() == "true"


def _proxy_settings(
    settings: EnvironmentSettings, coordinator_address: str, host: str, tls: TlsSettings
) -> ProxySettings:
    """Settings of the proxy in the process, whose gRPC port is for nobody."""
    return ProxySettings.from_settings(
        settings,
        coordinators=(coordinator_address,),
        endpoint="",
        secret_file="",
        host=host,
        advertised=host_and_port(coordinator_address)[0],
        ports="0",
        frame_ports="",
        metrics_ports="",
        lame_duck_s=0.0,
        web="on",
        tls=tls,
        access=access_on_this_machine(AccessSettings.from_settings(settings)),
    )
