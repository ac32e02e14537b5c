"""Settings of a stand-alone proxy."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from queryable_state.server.config.limits import Limits
from queryable_state.server.config.setting import setting
from queryable_state.server.security.access.access_settings import AccessSettings
from queryable_state.server.security.tls_settings import TlsSettings
from queryable_state.server.serving.listen_settings import PublicListenSettings
from queryable_state.server.serving.serving_settings import ServingSettings

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, kw_only=True)
class ProxySettings(PublicListenSettings, ServingSettings):
    """Settings of a stand-alone proxy."""

    coordinators: tuple[str, ...] = ()
    """HOST:PORT of the coordinator, by each of its addresses; empty: those in the file of
    `endpoint`."""

    secret: str = setting("", secret=True)
    """The job's secret, by which calls to the coordinator and to owners are signed; empty: the one
    in the file of `endpoint`."""

    endpoint: str = ""
    """URI of the state root of a job, of the checkpoint directory, or of the file `_endpoint` in
    one of them: the proxy reads there where the driver listens, again when it is lost."""

    storage_options: Mapping[str, Any] = setting(default_factory=dict, secret=True)
    """Options of the file system of `endpoint`."""

    wait_for_driver: bool = False
    """True starts although no driver is found; the health is NOT_SERVING until one is."""

    limits: Limits = field(default_factory=Limits)

    tls: TlsSettings = field(default_factory=TlsSettings)
    access: AccessSettings = field(default_factory=AccessSettings)
