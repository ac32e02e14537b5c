"""Settings of a proxy."""

from __future__ import annotations

from dataclasses import dataclass, field

from queryable_state.server.config.limits import Limits
from queryable_state.server.config.setting import setting
from queryable_state.server.security.tls_settings import TlsSettings
from queryable_state.server.serving.serving_settings import (
    PROXY_PORTS,
    ServingSettings,
    ports_setting,
)


@dataclass(frozen=True, kw_only=True)
class ProxySettings(ServingSettings):
    """Settings of a proxy, alone or in a state server process."""

    coordinator_address: str
    """HOST:PORT of the coordinator."""

    secret: str = setting(secret=True)
    """The job's secret, by which calls to the coordinator and to owners are signed."""

    host: str = "127.0.0.1"
    """Address to listen on."""

    advertised_host: str = ""
    """Name or address at which clients reach the proxy; empty: `host`."""

    ports: str = ports_setting(PROXY_PORTS)
    """Port, range or list; a 0 in it: any free port."""

    limits: Limits = field(default_factory=Limits)

    tls: TlsSettings = field(default_factory=TlsSettings)
