"""The configured ports of a state server."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from queryable_state.server.serving.ports import (
    SETTING_PREFIX,
    PortSpec,
    frame_ports,
    require_free,
)
from queryable_state.wire.addresses import parse_address

if TYPE_CHECKING:
    from queryable_state.server.state_server.base.server_directory import ServerAddresses
    from queryable_state.server.state_server.settings import StateServerSettings


class StatedPorts(NamedTuple):
    """The port settings of the six listeners; None: no such port."""

    query: PortSpec
    query_frames: PortSpec | None
    proxy: PortSpec
    proxy_frames: PortSpec | None
    tasks: PortSpec
    metrics: PortSpec | None

    def beginning_at(self, index: int) -> StatedPorts:
        """The same ports, each tried from this place of its setting on."""
        return StatedPorts(*(spec and spec.beginning_at(index) for spec in self))  # type: ignore[arg-type]

    def at_place_of(self, server: ServerAddresses) -> StatedPorts:
        """The same ports, each tried first at the place that another server had.

        Clients that know only the address of a killed server find the one in its place there.
        """
        port = parse_address(server.query, "query port")[1]
        return self.beginning_at(self.query.ports.index(port)) if port in self.query.ports else self

    @classmethod
    def of(cls, settings: StateServerSettings) -> StatedPorts:
        """Parses the settings; raises `InvalidRequestError` for a malformed one."""
        ports = settings.ports
        return cls(
            PortSpec.parse(ports.server_ports, SETTING_PREFIX + "server_ports"),
            frame_ports(ports.server_frame_ports, SETTING_PREFIX + "server_frame_ports"),
            PortSpec.parse(ports.proxy_ports, SETTING_PREFIX + "proxy_ports"),
            frame_ports(ports.proxy_frame_ports, SETTING_PREFIX + "proxy_frame_ports"),
            PortSpec.parse(ports.task_ports, SETTING_PREFIX + "task_ports"),
            frame_ports(ports.metrics_ports, SETTING_PREFIX + "metrics_ports"),
        )


def require_free_ports(settings: StateServerSettings) -> None:
    """Raises `InvalidRequestError` if all ports of a setting are in use, but for the metrics.

    Checked before the process starts: a start takes seconds, for every attempt of every task.
    """
    for what, spec in StatedPorts.of(settings)._asdict().items():
        if spec is not None and what != "metrics":
            require_free(spec, settings.host, what=f"{what.replace('_', ' ')} port")
