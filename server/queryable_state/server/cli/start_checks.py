"""Checks of the settings of a serving process that need neither its network nor its state."""

from __future__ import annotations

from typing import TYPE_CHECKING

from queryable_state.server.security.access.protected_mode import check_listener
from queryable_state.server.serving.advertised import Advertised
from queryable_state.wire.security.certificates import loaded

if TYPE_CHECKING:
    from queryable_state.server.settings.checkpoint_server_settings import CheckpointServerSettings
    from queryable_state.server.settings.proxy_settings import ProxySettings


def check_start(settings: ProxySettings | CheckpointServerSettings, what: str) -> None:
    """Raises the `InvalidRequestError` with which the process would refuse to start.

    Reads the files of TLS, the access file and a file of JWT keys; applies protected mode. `what`
    names the listener.
    """
    # It needs packages of an extra.
    from queryable_state.server.security.access.access_control import AccessControl

    tls, access = settings.tls, settings.access
    check_listener(
        settings.host,
        what=what,
        encrypted=tls.uses_tls,
        authenticated=access.authenticates,
        insecure=access.insecure,
    )
    Advertised.parse(settings.advertised, "--advertise", settings.advertised_frame_port)
    if tls.uses_tls:
        loaded(tls.tls_files)
    if access.authenticates:
        AccessControl(access)
