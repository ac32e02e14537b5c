"""The configured ports of a state server."""

from __future__ import annotations

from typing import TYPE_CHECKING

from queryable_state.server.serving.ports import SETTING_PREFIX, PortSpec, require_free

if TYPE_CHECKING:
    from queryable_state.server.state_server.settings import StateServerSettings


def stated_ports(settings: StateServerSettings) -> tuple[tuple[str, PortSpec], ...]:
    """Returns name and port setting of the query, proxy and backend port, if they are set."""
    return (
        ("query port", PortSpec.parse(settings.query_ports, SETTING_PREFIX + "server_ports")),
        ("proxy port", PortSpec.parse(settings.proxy_ports, SETTING_PREFIX + "proxy_ports")),
        ("backend port", PortSpec.parse(settings.backend_ports, "backend port")),
    )


def require_free_ports(settings: StateServerSettings) -> None:
    """Raises `InvalidRequestError` if a configured port is in use.

    Checked before the process starts: a start takes seconds, for every attempt of every task.
    """
    for what, ports in stated_ports(settings):
        require_free(ports, settings.host, what=what)
