"""Settings of a stand-alone proxy."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field

from queryable_state.server.config.limits import Limits
from queryable_state.server.config.log_settings import LogLevel
from queryable_state.server.config.secret_file import secret_of
from queryable_state.server.config.setting import setting
from queryable_state.server.serving.listen_settings import COORDINATOR_PORT, PublicListenSettings
from queryable_state.server.serving.serving_settings import ServingSettings


def _check_coordinator(address: str) -> None:
    host, colon, port = address.rpartition(":")
    if not colon or not host or not port.isdigit():
        raise ValueError(f"write HOST:PORT, as in 127.0.0.1:{COORDINATOR_PORT}")


@dataclass(frozen=True, kw_only=True)
class ProxySettings(PublicListenSettings, ServingSettings, LogLevel):
    """Settings of a stand-alone proxy."""

    coordinator_address: str = setting(check=_check_coordinator, name="coordinator")
    """HOST:PORT of the coordinator in the driver of the job; its default port is 6123."""

    secret: str = setting("", secret=True, flags=None)
    """The job's secret, by which calls to the coordinator and to owners are signed."""

    secret_file: str = ""
    """File with the job's secret; counts before `secret`."""

    limits: Limits = field(default_factory=Limits)

    def with_secret(self) -> ProxySettings:
        """These settings with the secret of `secret_file`.

        Raises InvalidRequestError if the file cannot be read or there is no secret.
        """
        return dataclasses.replace(self, secret=secret_of(self.secret_file, self.secret))
