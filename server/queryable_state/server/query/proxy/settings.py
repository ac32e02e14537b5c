"""Settings of a stand-alone proxy."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from queryable_state.server.serving.listen_settings import PROXY_FRAME_PORTS, PROXY_PORTS
from queryable_state.server.settings import LAME_DUCK_S, Limits

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, kw_only=True)
class ProxySettings:
    """Settings of a proxy, alone or in a state server process."""

    coordinators: tuple[str, ...] = ()
    """HOST:PORT of the coordinator, by each of its addresses; empty: those in the file of
    `endpoint`."""

    secret: str = field(default="", repr=False)
    """The job's secret, by which calls to the coordinator and to owners are signed; empty: the one
    in the file of `endpoint`."""

    endpoint: str = ""
    """URI of the state root of a job, of the checkpoint directory, or of the file `_endpoint` in
    one of them: the proxy reads there where the driver listens, again when it is lost."""

    storage_options: Mapping[str, Any] = field(default_factory=dict)
    """Options of the file system of `endpoint`."""

    wait_for_driver: bool = False
    """True starts although no driver is found; the health is NOT_SERVING until one is."""

    host: str = "127.0.0.1"
    """Address to listen on."""

    advertised: str = ""
    """HOST or HOST:PORT at which clients reach the proxy; empty: `QUERYABLE_STATE_ADVERTISED_HOST`,
    else `host`, or the name of the machine if that is all addresses."""

    advertised_frame_port: int = 0
    """Frame port at which clients reach the proxy; 0: the port it listens on."""

    ports: str = PROXY_PORTS
    """Port, range or list; a 0 in it: any free port."""

    frame_ports: str = PROXY_FRAME_PORTS
    """Port, range or list for look-ups by frames; 0: any free port; empty: no frame port, look-ups
    are unary gRPC calls."""

    plain_grpc: bool = False
    """True serves gRPC with `grpc.aio` alone: slower, and without undocumented parts of grpcio."""

    limits: Limits = field(default_factory=Limits)

    default_deadline_ms: int = 10_000
    """Deadline of a query without one."""

    lame_duck_s: float = LAME_DUCK_S
    """Time that a proxy still answers after SIGTERM while its health is NOT_SERVING; at least the
    interval of the health checks of load balancers and clients. 0: none."""

    drain_timeout_s: float = 10.0
    """Time that calls in flight may take when the proxy stops."""
