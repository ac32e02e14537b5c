"""The ports that settings state for a state server."""

from __future__ import annotations

from typing import TYPE_CHECKING

from queryable_state.server.serving.ports import SETTING_PREFIX, PortSpec, require_free

if TYPE_CHECKING:
    from queryable_state.server.settings import StateServerSettings


def stated_ports(settings: StateServerSettings) -> tuple[tuple[str, PortSpec], ...]:
    """What listens there, and the ports: of queries, of the proxy, of tasks."""
    return (
        ("query port", PortSpec.parse(settings.query_ports, SETTING_PREFIX + "server_ports")),
        ("proxy port", PortSpec.parse(settings.proxy_ports, SETTING_PREFIX + "proxy_ports")),
        ("backend port", PortSpec.parse(settings.backend_ports, "backend port")),
    )


def require_free_ports(settings: StateServerSettings) -> None:
    """Raises `InvalidRequestError` where a server with these settings cannot have its ports now.

    A process takes seconds to start and to find that out, once for each attempt of each task.
    """
    for what, ports in stated_ports(settings):
        require_free(ports, settings.host, what=what)
