"""Settings of the coordinator in the driver."""

from __future__ import annotations

from dataclasses import dataclass, field

from queryable_state.server.config.setting import DAY_S, setting
from queryable_state.server.security.access.access_settings import AccessSettings
from queryable_state.server.security.tls_settings import TlsSettings
from queryable_state.server.serving.listen_settings import (
    COORDINATOR_PORTS,
    host_setting,
    ports_setting,
)
from queryable_state.server.settings.shared_settings import BatchSettings


@dataclass(frozen=True, kw_only=True)
class CoordinatorSettings(BatchSettings):
    """Settings of the coordinator in the driver."""

    secret: str = setting("", secret=True)
    """The job's secret, by which every call is signed; empty: a random one."""

    application: str = ""
    """Id of the application, for the endpoint files."""

    endpoint_files: bool = True
    """Write where the coordinator listens, with the secret, into the state roots of jobs."""

    host: str = host_setting("127.0.0.1")
    """Address to listen on."""

    advertised_host: str = ""
    """Name or address at which others reach the coordinator; empty: `host`."""

    ports: str = ports_setting(COORDINATOR_PORTS)
    """Port, range or list; a 0 in it: any free port."""

    driver_metrics_ports: str = ports_setting("", may_be_empty=True)
    """Port, range or list of the metrics over HTTP; empty: none."""

    tls: TlsSettings = field(default_factory=TlsSettings)

    access: AccessSettings = field(default_factory=AccessSettings)
    """Who may scrape the metrics; the coordinator's calls are signed."""

    insecure: bool = False
    """Listen beyond the loopback address without TLS."""

    stop_timeout_s: float = setting(10.0, least=0, most=DAY_S)
    """How long state servers may take to drain when the coordinator stops."""

    workers: int = setting(64, least=2, most=10_000)
    """Threads that answer calls; three quarters of them may wait."""
