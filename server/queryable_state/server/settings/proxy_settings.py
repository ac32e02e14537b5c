"""Settings of a proxy."""

from __future__ import annotations

from dataclasses import dataclass, field

from queryable_state.server.config.limits import Limits
from queryable_state.server.config.setting import setting
from queryable_state.server.serving.listen_settings import PublicListenSettings
from queryable_state.server.serving.serving_settings import ServingSettings


@dataclass(frozen=True, kw_only=True)
class ProxySettings(PublicListenSettings, ServingSettings):
    """Settings of a stand-alone proxy."""

    coordinator_address: str
    """HOST:PORT of the coordinator."""

    secret: str = setting(secret=True)
    """The job's secret, by which calls to the coordinator and to owners are signed."""

    limits: Limits = field(default_factory=Limits)
