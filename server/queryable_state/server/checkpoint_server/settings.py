"""What can be set on a checkpoint server."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

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
    """Where the state is put to be read: `heap` or `rocksdb`; empty: as the job had it."""

    directory: str = ""
    """Folder for what is brought here, in a folder of its own; empty: the system's temporary."""

    host: str = "127.0.0.1"
    """Address to listen on."""

    advertised_host: str = ""
    """Name or address others reach the server by; empty: `host`."""

    ports: str = PROXY_PORTS
    """Port, range or list; a 0 in it: any free port."""

    frame_ports: str = "0"
    """Port, range or list that takes look-ups as frames; 0: any free port; empty: look-ups are
    unary gRPC calls."""

    plain_grpc: bool = False
    """Serve gRPC with `grpc.aio` alone: slower, and without the undocumented core of grpcio."""

    limits: Limits = field(default_factory=Limits)

    transfer_threads: int = 4
    """Files that are brought here at once, and stores that are filled."""

    default_deadline_ms: int = 10_000
    """How long a query without a deadline of its own may take."""

    lame_duck_s: float = LAME_DUCK_S
    """How long a server that gets SIGTERM answers on while its health is NOT_SERVING; at least what
    load balancers and clients take to look at it. 0: not at all."""

    drain_timeout_s: float = 10.0
    """How long calls in flight may take when the server stops."""

    def __post_init__(self) -> None:
        if self.backend and self.backend not in BACKENDS:
            raise InvalidRequestError(
                f"backend {self.backend!r} is not known: choose one of {', '.join(BACKENDS)}"
            )
