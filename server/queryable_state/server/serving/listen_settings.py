"""Settings of the addresses and ports on which the processes of an application listen.

A state server listens on six ports: the k-th one of a machine takes the k-th port of each
setting. With the defaults the first takes 9067 to 9072, the next one 9077 to 9082, and so on.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from queryable_state.server.config.setting import SettingsGroup, setting
from queryable_state.server.serving.advertised import Advertised, require_reachable
from queryable_state.server.serving.ports import PortSpec, frame_ports
from queryable_state.wire.addresses import parse_host

SERVER_PORTS = "9067-9167/10"
SERVER_FRAME_PORTS = "9068-9168/10"
PROXY_PORTS = "9069-9169/10"
PROXY_FRAME_PORTS = "9070-9170/10"
TASK_PORTS = "9071-9171/10"
METRICS_PORTS = "9072-9172/10"
COORDINATOR_PORTS = "6123-6132"

COORDINATOR_PORT = 6123
"""The first of `COORDINATOR_PORTS`."""

_PORTS_TEXT = "0 to 65535; `a`, `a-b`, `a-b/step`, `a,b`"


def ports_setting(default: str, *, may_be_empty: bool = False, **others: Any) -> Any:
    """Declares a setting for a port, a range or a list of ports; `others` as in `setting`."""
    check = frame_ports if may_be_empty else PortSpec.parse
    return setting(default, check=check, text=_PORTS_TEXT, unit="ports", **others)


def host_setting(default: str) -> Any:
    """Declares a setting for an address to listen on."""
    return setting(default, check=_check_host)


def _require_distinct(settings: SettingsGroup, *names: str) -> None:
    """Raises `InvalidRequestError` if two settings name the same single port."""
    taken: dict[int, str] = {}
    for name in names:
        spec = frame_ports(getattr(settings, name))
        if spec is not None and len(spec.ports) == 1 and spec.ports[0]:
            other = taken.setdefault(spec.ports[0], name)
            settings.require(
                other == name,
                (other, name),
                "each listener needs a port of its own: set another one, or a range",
            )


def _check_host(host: str) -> None:
    if host:
        parse_host(host, "the host")


def _check_reachable(host: str) -> None:
    if host:
        require_reachable(host, "the host")


def _check_advertised(address: str) -> None:
    Advertised.parse(address, "the address")


@dataclass(frozen=True, kw_only=True)
class ServerPorts(SettingsGroup):
    """Ports of one state server, each a port, a range or a list."""

    server_ports: str = ports_setting(SERVER_PORTS, flink=("queryable-state.server.ports",))
    """Port, range (`9067-9167/10`: every tenth) or list for queries that a state server answers
    from its own state. Each executor of a machine needs its own: the next one takes the next port
    of this and of the five settings below. 0: any free port. If none is free, tasks fail."""

    server_frame_ports: str = ports_setting(SERVER_FRAME_PORTS, may_be_empty=True)
    """Frame port beside `server_ports`, for look-ups; same rules. Empty: no frame port, look-ups
    are unary gRPC calls."""

    proxy_ports: str = ports_setting(PROXY_PORTS, flink=("queryable-state.proxy.ports",))
    """Port for queries that a state server answers or forwards; same rules as `server_ports`."""

    proxy_frame_ports: str = ports_setting(PROXY_FRAME_PORTS, may_be_empty=True)
    """Frame port beside `proxy_ports`; same rules as `server_frame_ports`."""

    task_ports: str = ports_setting(TASK_PORTS)
    """Port for Spark tasks and the coordinator; same rules as `server_ports`."""

    metrics_ports: str = ports_setting(METRICS_PORTS, may_be_empty=True)
    """HTTP port of the Prometheus metrics of a state server, path `/metrics`; found as the other
    ports. If none is free, the server logs a WARNING and serves none. Empty: no such port."""

    def check_relations(self) -> None:
        super().check_relations()
        _require_distinct(self, *ports_of(self))

    def state_server_ports(self) -> ServerPorts:
        """Only the ports of a state server."""
        return ServerPorts.from_settings(self)


@dataclass(frozen=True, kw_only=True)
class ListenSettings(ServerPorts):
    """Where the coordinator and the state servers of an application listen."""

    host: str = host_setting("")
    """Address the coordinator and the state servers listen on; empty: the loopback address if all
    executors are on this machine, else all addresses (`0.0.0.0`; `::` for IPv6 too)."""

    coordinator_host: str = setting("", check=_check_reachable)
    """Host name or address under which others reach the coordinator; empty:
    `QUERYABLE_STATE_ADVERTISED_HOST` of the driver's environment, else `spark.driver.host`."""

    coordinator_ports: str = ports_setting(COORDINATOR_PORTS)
    """Port, range or list; 0 means any free port. If none is free, the application does not start.
    """

    driver_metrics_ports: str = ports_setting("", may_be_empty=True)
    """HTTP port, range or list of the Prometheus metrics of the driver, path `/metrics`, on `host`;
    empty: none."""

    endpoint_files: bool = True
    """True: the driver writes where it listens, with its secret, into `_endpoint` in the state root
    of each job and in `checkpoint_directory`, so that proxies find it after a restart."""


@dataclass(frozen=True, kw_only=True)
class PublicListenSettings(SettingsGroup):
    """Where a stand-alone proxy or a checkpoint server listens."""

    host: str = host_setting("127.0.0.1")
    """Address to listen on; `0.0.0.0`: all of IPv4; `::`: all."""

    advertised: str = setting("", check=_check_advertised, flags=("--advertise",))
    """HOST or HOST:PORT at which clients reach the process; empty:
    `QUERYABLE_STATE_ADVERTISED_HOST`, else `host`, or the name of the machine if that is all
    addresses."""

    advertised_frame_port: int = setting(0, least=0, most=65535, flags=("--advertise-frame-port",))
    """Frame port at which clients reach the process; 0: the port it listens on."""

    ports: str = ports_setting(PROXY_PORTS, name="proxy_ports", flags=("--port",))
    """Port, range or list; a 0 in it: any free port."""

    frame_ports: str = ports_setting(
        PROXY_FRAME_PORTS, may_be_empty=True, name="proxy_frame_ports", flags=("--frame-port",)
    )
    """Port, range or list for look-ups by frames, at the same place as the port of `ports`; empty:
    no frame port, look-ups are unary gRPC calls."""

    def check_relations(self) -> None:
        super().check_relations()
        _require_distinct(self, "ports", "frame_ports")


def ports_of(ports: ServerPorts) -> dict[str, str]:
    """The six settings of a state server's ports, by name."""
    names = (field.name for field in dataclasses.fields(ServerPorts))
    return {name: getattr(ports, name) for name in names if name != "origins"}


ANY_PORTS = ServerPorts(
    server_ports="0",
    server_frame_ports="0",
    proxy_ports="0",
    proxy_frame_ports="0",
    task_ports="0",
    metrics_ports="0",
)
"""Any free ports."""
