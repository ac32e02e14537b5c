"""Settings of the listeners of state servers, proxies and checkpoint servers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from queryable_state.server.config.setting import DAY_MS, DAY_S, HOUR_S, setting
from queryable_state.server.config.settings_group import SettingsGroup
from queryable_state.server.serving.ports import PortSpec, frame_ports

SERVER_PORT = 9067
PROXY_PORT = 9069
COORDINATOR_PORT = 6123

# The default port, or any free one if it is taken. Ports that a user sets have no such fallback.
SERVER_PORTS = f"{SERVER_PORT},0"
PROXY_PORTS = f"{PROXY_PORT},0"
COORDINATOR_PORTS = f"{COORDINATOR_PORT},0"

LAME_DUCK_S = 5.0

PORTS_TEXT = "0 to 65535; `a`, `a-b`, `a,b`"


def ports_setting(default: str, **others: Any) -> Any:
    """Declares a setting for a port, a range or a list of ports; `others` as in `setting`."""
    return setting(default, check=PortSpec.parse, text=PORTS_TEXT, unit="ports", **others)


@dataclass(frozen=True, kw_only=True)
class ServingSettings(SettingsGroup):
    """What all public listeners have in common."""

    frame_ports: str = setting("0", check=frame_ports, text=PORTS_TEXT, unit="ports")
    """Port, range or list for look-ups by frames; a state server needs two, one for its own state
    and one for its proxy. 0: any free port; empty: no frame port, look-ups are unary gRPC calls."""

    plain_grpc: bool = False
    """True serves gRPC with `grpc.aio` alone: slower, and without undocumented parts of grpcio."""

    default_deadline_ms: int = setting(10_000, least=1, most=DAY_MS)
    """Deadline of a query without one."""

    lame_duck_s: float = setting(LAME_DUCK_S, least=0, most=HOUR_S)
    """How long a server still answers after SIGTERM, with the health NOT_SERVING; at least the
    health check interval of load balancers and clients. 0: not at all."""

    drain_timeout_s: float = setting(10.0, least=0, most=DAY_S)
    """How long calls in flight may take when the server stops."""
