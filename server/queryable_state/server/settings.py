"""Settings of state servers, proxies and the coordinator, as frozen data."""

from __future__ import annotations

import dataclasses
import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from queryable_state.server.process.log_settings import LogSettings
from queryable_state.server.security.access.access_settings import AccessSettings
from queryable_state.v1 import query_pb2
from queryable_state.wire.errors import InvalidRequestError

SERVER_PORT = 9067
PROXY_PORT = 9069
COORDINATOR_PORT = 6123

SERVER_LOG = "server.log"

# The default port, or any free one. Ports that a user sets have no such fallback.
SERVER_PORTS = f"{SERVER_PORT},0"
PROXY_PORTS = f"{PROXY_PORT},0"
COORDINATOR_PORTS = f"{COORDINATOR_PORT},0"

LAME_DUCK_S = 5.0
# Heartbeats in the time of a lease: two may be lost before it expires.
LEASE_RENEWALS = 3

Backend = Literal["heap", "rocksdb"]
BACKENDS: tuple[Backend, ...] = ("heap", "rocksdb")


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Limits that a server or proxy enforces; its hello sends them to clients."""

    key_bytes: int = 64 * 1024
    """Bytes of one encoded key, with its key group."""

    key_json_bytes: int = 256 * 1024
    """Bytes of one key, or map key, as JSON."""

    request_bytes: int = 4 * 1024 * 1024
    """Bytes of one request of a client."""

    name_bytes: int = 1024
    """Bytes of the name of a job or state in a request."""

    value_bytes: int = 4 * 1024 * 1024
    """Bytes of one stored value."""

    batch_keys: int = 4096
    """Keys of one query."""

    queries_in_flight: int = 64
    """Unanswered queries of one stream."""

    streams: int = 4096
    """Frame connections of one port that have said hello."""

    connections: int = 4096
    """Connections of one port."""

    held_bytes: int = 64 * 1024 * 1024
    """Bytes of one process for incomplete and unanswered requests, and as many for answers that
    clients have not read; each connection has a small share even if they are used up."""

    read_timeout_s: float = 10.0
    """Time that a client may take to send one request, or to read any part of its answers."""

    answer_bytes: int = 16 * 1024 * 1024
    """Value bytes of one answer, at least `value_bytes`; the client asks again for further keys."""

    prefix_records: int = 50_000
    """Records of one key and namespace that a query may read; it reads them in one step."""

    message_bytes: int = 64 * 1024 * 1024
    """Bytes of one message between tasks, state servers and the coordinator."""

    max_staged_bytes: int = 1024 * 1024 * 1024
    """Bytes prepared and not yet committed on one state server; it refuses more."""

    @property
    def frame_bytes(self) -> int:
        """Bytes of one frame; a proxy's frame may be longer than the client's that it splits."""
        return self.request_bytes + (64 << 10)

    def to_proto(self) -> query_pb2.Limits:
        """The limits as sent in a hello."""
        return query_pb2.Limits(
            key_bytes=self.key_bytes,
            value_bytes=self.value_bytes,
            batch_keys=self.batch_keys,
            queries_in_flight=self.queries_in_flight,
            request_bytes=self.request_bytes,
            key_json_bytes=self.key_json_bytes,
        )


@dataclass(frozen=True, kw_only=True)
class StateServerSettings:
    """Settings of one state server process."""

    coordinator_address: str
    """HOST:PORT of the coordinator."""

    secret: str = field(repr=False)
    """The job's secret, by which every internal call is signed; it never travels."""

    executor_id: str
    """The executor of the server; unique in one application."""

    directory: str
    """Folder of `server.json`, log and live store files, which the server owns."""

    watched_pid: int = 0
    """The server ends when this process ends; 0: no process."""

    watched_start_ticks: int = 0
    """Start time of that process in `/proc/PID/stat`, as a guard against a reused pid; 0: any."""

    host: str = "127.0.0.1"
    """Address to listen on."""

    advertised_host: str = ""
    """Name or address at which others reach the server; empty: `host`."""

    query_ports: str = SERVER_PORTS
    """Port, range or list for queries of this server's state; a 0 in it: any free port."""

    proxy_ports: str = PROXY_PORTS
    """Port, range or list for queries of all state; a 0 in it: any free port."""

    frame_ports: str = "0"
    """Port, range or list for look-ups by frames; 0: any free port; empty: no frame port."""

    plain_grpc: bool = False
    """True serves gRPC with `grpc.aio` alone: slower, and without undocumented parts of grpcio."""

    backend_ports: str = "0"
    """Port, range or list for tasks and the coordinator; 0: any free port."""

    backend: Backend = "heap"
    """The state backend."""

    rocksdb: dict[str, int] = field(default_factory=dict)
    """Fields of `RocksDBSettings` other than the defaults."""

    limits: Limits = field(default_factory=Limits)
    access: AccessSettings = field(default_factory=AccessSettings)

    logs: LogSettings = field(default_factory=LogSettings)

    strict_determinism: bool = False
    """Refuse a second seal of a batch with another fingerprint, instead of logging an error."""

    compact_chunk_records: int = 300
    """Records that one step compacts into the base; a step may hold the GIL."""

    default_deadline_ms: int = 10_000
    """Deadline of a query without one."""

    coordinator_timeout_s: float = 30.0
    """Time for which the first registration is retried."""

    orphan_timeout_s: float = 120.0
    """Time after which a server that cannot reach its coordinator ends."""

    lame_duck_s: float = LAME_DUCK_S
    """Time that a server still answers after SIGTERM, NOT_SERVING; at least the interval of the
    health checks of load balancers and clients. 0: none."""

    drain_timeout_s: float = 10.0
    """Time that calls in flight may take when the server stops."""

    def __post_init__(self) -> None:
        if self.backend not in BACKENDS:
            raise InvalidRequestError(
                f"unknown backend {self.backend!r}: choose one of {', '.join(BACKENDS)}"
            )
        if not self.secret:
            raise InvalidRequestError("a state server needs the job's secret: `secret` is empty")

    @property
    def log_file(self) -> Path:
        """Path of the log of this process."""
        if not self.logs.directory:
            return Path(self.directory) / SERVER_LOG
        return Path(self.logs.directory) / f"state-server-{self.executor_id}-{os.getpid()}.log"

    def to_json(self) -> str:
        """The settings, secret included, for the standard input of the process."""
        return json.dumps(dataclasses.asdict(self))

    @classmethod
    def from_json(cls, text: str) -> StateServerSettings:
        """Inverse of `to_json`."""
        try:
            values: dict[str, Any] = json.loads(text)
            limits = Limits(**values.pop("limits", {}))
            logs = LogSettings(**values.pop("logs", {}))
            access = AccessSettings(**values.pop("access", {}))
            return cls(limits=limits, logs=logs, access=access, **values)
        except (ValueError, TypeError, AttributeError) as problem:
            raise InvalidRequestError(f"settings are not readable: {problem}") from problem


@dataclass(frozen=True, kw_only=True)
class CoordinatorSettings:
    """Settings of the coordinator in the driver."""

    secret: str = field(default="", repr=False)
    """The job's secret, by which every call is signed; empty: a random one."""

    host: str = "127.0.0.1"
    """Address to listen on."""

    advertised_host: str = ""
    """Name or address at which others reach the coordinator; empty: `host`."""

    ports: str = COORDINATOR_PORTS
    """Port, range or list; a 0 in it: any free port."""

    lease_ms: int = 5_000
    """Time that a state server may act as owner without a new lease."""

    lease_margin_ms: int = 1_000
    """Time from the expiry of a lease until the coordinator assigns its subtasks to others."""

    strict: bool = True
    """Stop a query that committed a batch without running all of its operators, and withdraw the
    commit; False: log an error and continue without those records."""

    strict_determinism: bool = False
    """Stop a query whose batch had other input in a re-run, instead of logging an error."""

    retained_finished_jobs: int = 10
    """Finished jobs whose state is still served; beyond these the oldest are dropped."""

    push_timeout_ms: int = 1_000
    """Time that a state server may take to acknowledge a commit before a heartbeat repeats it."""

    reopen_after_ms: int = 5_000
    """Time without a batch after which other servers restore the subtasks of a lost one."""

    manifest_timeout_ms: int = 60_000
    """Time for which writing a manifest is retried before the job fails."""

    stop_timeout_s: float = 10.0
    """Time that state servers may take to drain when the coordinator stops."""

    workers: int = 64
    """Threads that answer calls."""

    @property
    def heartbeat_s(self) -> float:
        """Seconds between two renewals of a lease."""
        return self.lease_ms / LEASE_RENEWALS / 1000


@dataclass(frozen=True, kw_only=True)
class ProxySettings:
    """Settings of a proxy, alone or in a state server process."""

    coordinator_address: str
    """HOST:PORT of the coordinator."""

    secret: str = field(repr=False)
    """The job's secret, by which calls to the coordinator and to owners are signed."""

    host: str = "127.0.0.1"
    """Address to listen on."""

    advertised_host: str = ""
    """Name or address at which clients reach the proxy; empty: `host`."""

    ports: str = PROXY_PORTS
    """Port, range or list; a 0 in it: any free port."""

    frame_ports: str = "0"
    """Port, range or list for look-ups by frames; 0: any free port; empty: no frame port."""

    plain_grpc: bool = False
    """True serves gRPC with `grpc.aio` alone: slower, and without undocumented parts of grpcio."""

    limits: Limits = field(default_factory=Limits)
    access: AccessSettings = field(default_factory=AccessSettings)

    default_deadline_ms: int = 10_000
    """Deadline of a query without one."""

    lame_duck_s: float = LAME_DUCK_S
    """Time that a proxy still answers after SIGTERM while its health is NOT_SERVING; at least the
    interval of the health checks of load balancers and clients. 0: none."""

    drain_timeout_s: float = 10.0
    """Time that calls in flight may take when the proxy stops."""
