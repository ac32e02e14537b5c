"""Settings of the addresses and ports on which the processes of an application listen.

A state server listens on five ports: the k-th one of a machine takes the k-th port of each
setting. With the defaults the first takes 9067 to 9071, the next one 9077 to 9081, and so on.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field

from queryable_state.server.serving.advertised import require_reachable
from queryable_state.server.serving.ports import SETTING_PREFIX, PortSpec
from queryable_state.wire.addresses import parse_host

SERVER_PORTS = "9067-9167/10"
SERVER_FRAME_PORTS = "9068-9168/10"
PROXY_PORTS = "9069-9169/10"
PROXY_FRAME_PORTS = "9070-9170/10"
TASK_PORTS = "9071-9171/10"
COORDINATOR_PORTS = "6123-6132"

COORDINATOR_PORT = 6123
"""The first of `COORDINATOR_PORTS`."""


@dataclass(frozen=True, kw_only=True)
class ServerPorts:
    """Ports of one state server, each a port, a range or a list."""

    server_ports: str = field(
        default=SERVER_PORTS, metadata={"flink": ("queryable-state.server.ports",)}
    )
    """Port, range (`9067-9167/10`: every tenth) or list for queries that a state server answers
    from its own state. Each executor of a machine needs its own: the next one takes the next port
    of this and of the four settings below. 0: any free port. If none is free, tasks fail."""

    server_frame_ports: str = SERVER_FRAME_PORTS
    """Frame port beside `server_ports`, for look-ups; same rules. Empty: no frame port, look-ups
    are unary gRPC calls."""

    proxy_ports: str = field(
        default=PROXY_PORTS, metadata={"flink": ("queryable-state.proxy.ports",)}
    )
    """Port for queries that a state server answers or forwards; same rules as `server_ports`."""

    proxy_frame_ports: str = PROXY_FRAME_PORTS
    """Frame port beside `proxy_ports`; same rules as `server_frame_ports`."""

    task_ports: str = TASK_PORTS
    """Port for Spark tasks and the coordinator; same rules as `server_ports`."""

    def __post_init__(self) -> None:
        for name, text in ports_of(self).items():
            if text or not name.endswith("_frame_ports"):
                PortSpec.parse(text, SETTING_PREFIX + name)

    def state_server_ports(self) -> ServerPorts:
        """Only the ports of a state server."""
        return ServerPorts(**ports_of(self))


@dataclass(frozen=True, kw_only=True)
class ListenSettings(ServerPorts):
    """Where the coordinator and the state servers of an application listen."""

    host: str = ""
    """Address the coordinator and the state servers listen on; empty: the loopback address if all
    executors are on this machine, else all addresses (`0.0.0.0`; `::` for IPv6 too)."""

    coordinator_host: str = ""
    """Host name or address under which others reach the coordinator; empty:
    `QUERYABLE_STATE_ADVERTISED_HOST` of the driver's environment, else `spark.driver.host`."""

    coordinator_ports: str = COORDINATOR_PORTS
    """Port, range or list; 0 means any free port. If none is free, the application does not start.
    """

    endpoint_files: bool = True
    """True: the driver writes where it listens, with its secret, into `_endpoint` in the state root
    of each job and in `checkpoint_directory`, so that proxies find it after a restart."""

    def __post_init__(self) -> None:
        super().__post_init__()
        PortSpec.parse(self.coordinator_ports, SETTING_PREFIX + "coordinator_ports")
        if self.host:
            parse_host(self.host, SETTING_PREFIX + "host")
        if self.coordinator_host:
            require_reachable(self.coordinator_host, SETTING_PREFIX + "coordinator_host")


def ports_of(ports: ServerPorts) -> dict[str, str]:
    """The five settings of a state server's ports, by name."""
    return {each.name: getattr(ports, each.name) for each in dataclasses.fields(ServerPorts)}


ANY_PORTS = ServerPorts(
    server_ports="0",
    server_frame_ports="0",
    proxy_ports="0",
    proxy_frame_ports="0",
    task_ports="0",
)
"""Any free ports."""
