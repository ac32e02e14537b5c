"""Settings of how the public listeners of all processes serve."""

from __future__ import annotations

from dataclasses import dataclass

from queryable_state.server.config.setting import DAY_MS, DAY_S, HOUR_S, setting
from queryable_state.server.config.settings_group import SettingsGroup


@dataclass(frozen=True, kw_only=True)
class ServingSettings(SettingsGroup):
    """How state servers, proxies and checkpoint servers serve, and how they end."""

    plain_grpc: bool = False
    """True serves gRPC with `grpc.aio` alone: slower, and without undocumented parts of grpcio."""

    default_deadline_ms: int = setting(10_000, least=1, most=DAY_MS)
    """Deadline of a query without one."""

    lame_duck_s: float = setting(5.0, least=0, most=HOUR_S, flags=("--lame-duck",))
    """How long a server still answers after SIGTERM, with the health NOT_SERVING; at least the
    health check interval of load balancers and clients. 0: not at all."""

    drain_timeout_s: float = setting(10.0, least=0, most=DAY_S)
    """How long calls in flight may take when the server stops."""
