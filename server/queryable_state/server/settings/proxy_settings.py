"""Settings of a stand-alone proxy."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from queryable_state.server.config.limits import Limits
from queryable_state.server.config.setting import SettingsGroup, setting
from queryable_state.server.security.access.access_settings import AccessSettings
from queryable_state.server.security.tls_settings import TlsSettings
from queryable_state.server.serving.listen_settings import PublicListenSettings, ports_setting
from queryable_state.server.settings.shared_settings import LogLevel, ServingSettings, WebSettings

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, kw_only=True)
class DriverSettings(SettingsGroup):
    """How a proxy finds the driver of a job."""

    coordinators: tuple[str, ...] = setting((), name="coordinator")
    """HOST[:PORT] of the coordinator in the driver, default port 6123; by each of its addresses,
    with commas between; empty: those in the file of `endpoint`."""

    secret: str = setting("", secret=True, flags=None)
    """The job's secret, by which calls to the coordinator and to owners are signed; empty: the one
    of `secret_file`, else in the file of `endpoint`."""

    secret_file: str = ""
    """File with the job's secret; counts before `secret`."""

    endpoint: str = ""
    """URI of the state root of a job, of the checkpoint directory, or of the file `_endpoint` in
    one of them: the proxy reads there where the driver listens, again when it is lost."""

    storage_options: Mapping[str, Any] = setting(default_factory=dict, secret=True)
    """Options of the file system of `endpoint`, as a JSON object."""

    wait_for_driver: bool = False
    """True starts although no driver is found; the health is NOT_SERVING until one is."""


@dataclass(frozen=True, kw_only=True)
class ProxySettings(DriverSettings, PublicListenSettings, WebSettings, ServingSettings, LogLevel):
    """Settings of a stand-alone proxy."""

    metrics_ports: str = ports_setting("", may_be_empty=True, flags=("--metrics-port",))
    """HTTP port, range or list of the Prometheus metrics, path `/metrics`; empty: none."""

    limits: Limits = field(default_factory=Limits)

    tls: TlsSettings = field(default_factory=TlsSettings)
    access: AccessSettings = field(default_factory=AccessSettings)
