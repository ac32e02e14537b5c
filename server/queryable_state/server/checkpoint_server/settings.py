"""Settings of a checkpoint server."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from queryable_state.server.security.access.access_settings import AccessSettings
from queryable_state.server.settings import BACKENDS, LAME_DUCK_S, PROXY_PORTS, Limits
from queryable_state.wire.errors import InvalidRequestError

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, kw_only=True)
class CheckpointServerSettings:
    """Settings of a process that serves one checkpoint or savepoint."""

    checkpoint: str
    """URI of a checkpoint's or savepoint's folder; of a state root for its newest checkpoint."""

    storage_options: Mapping[str, Any] = field(default_factory=dict)
    """Options of the file system of fsspec."""

    backend: str = ""
    """Backend of the loaded state: `heap` or `rocksdb`; empty: that of the job."""

    directory: str = ""
    """Folder in which the loaded state gets a folder of its own; empty: the system's temporary
    folder."""

    host: str = "127.0.0.1"
    """Address to listen on."""

    advertised_host: str = ""
    """Name or address at which clients reach the server; empty: `host`."""

    ports: str = PROXY_PORTS
    """Port, range or list; a 0 in it: any free port."""

    frame_ports: str = "0"
    """Port, range or list for look-ups by frames; 0: any free port; empty: no frame port, look-ups
    are unary gRPC calls."""

    plain_grpc: bool = False
    """True serves gRPC with `grpc.aio` alone: slower, and without undocumented parts of grpcio."""

    limits: Limits = field(default_factory=Limits)

    access: AccessSettings = field(default_factory=AccessSettings)

    transfer_threads: int = 4
    """Threads that download files, and threads that fill stores."""

    default_deadline_ms: int = 10_000
    """Deadline of a query without one."""

    lame_duck_s: float = LAME_DUCK_S
    """Time that a server still answers after SIGTERM while its health is NOT_SERVING; at least the
    interval of the health checks of load balancers and clients. 0: none."""

    drain_timeout_s: float = 10.0
    """Time that calls in flight may take when the server stops."""

    def __post_init__(self) -> None:
        if self.backend and self.backend not in BACKENDS:
            raise InvalidRequestError(
                f"unknown backend {self.backend!r}: choose one of {', '.join(BACKENDS)}"
            )
