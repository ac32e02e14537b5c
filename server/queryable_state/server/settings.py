"""What can be set on our processes: frozen data, read from flags and environment elsewhere."""

from __future__ import annotations

import dataclasses
import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeVar

from queryable_state.server.process.log_settings import LogSettings
from queryable_state.v1 import query_pb2
from queryable_state.wire.errors import InvalidRequestError

SERVER_PORT = 9067
PROXY_PORT = 9069
COORDINATOR_PORT = 6123

SERVER_LOG = "server.log"

# The default port, or any free one if it is taken. What a user sets has no such way out.
SERVER_PORTS = f"{SERVER_PORT},0"
PROXY_PORTS = f"{PROXY_PORT},0"
COORDINATOR_PORTS = f"{COORDINATOR_PORT},0"

LAME_DUCK_S = 5.0

# Heartbeats of a lease: two may be lost before it ends.
LEASE_RENEWALS = 3

Backend = Literal["heap", "rocksdb"]
BACKENDS: tuple[Backend, ...] = ("heap", "rocksdb")


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What a server or proxy refuses to exceed; told to clients in hello."""

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
    """Queries of one stream that may wait for their answer."""

    streams: int = 4096
    """Frame connections of one port that have said hello."""

    connections: int = 4096
    """Connections of one port."""

    held_bytes: int = 64 * 1024 * 1024
    """Bytes of one process for requests that are incomplete or not answered, and as many for
    answers that are not taken; a connection has a small share in any case."""

    read_timeout_s: float = 10.0
    """How long a client may take to send one request, or to read anything of its answers."""

    answer_bytes: int = 16 * 1024 * 1024
    """Value bytes of one answer, at least `value_bytes`; the keys beyond it are to ask again."""

    prefix_records: int = 50_000
    """Records under one key and namespace that a query may read; they are read in one go."""

    message_bytes: int = 64 * 1024 * 1024
    """Bytes of one message between tasks, state servers and the coordinator."""

    max_staged_bytes: int = 1024 * 1024 * 1024
    """Bytes prepared and not yet committed on one state server; what is beyond is refused."""

    @property
    def frame_bytes(self) -> int:
        """Bytes of one frame of a client; a proxy's may be longer than the one it divides."""
        return self.request_bytes + (64 << 10)

    def to_proto(self) -> query_pb2.Limits:
        """The limits as told in hello."""
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
    """The job's secret, wanted and sent on every internal call."""

    executor_id: str
    """The executor the server belongs to; unique among those of one application."""

    directory: str
    """Folder of `server.json`, log and live store files; the server owns what it puts there."""

    watched_pid: int = 0
    """The server ends with this process; 0: with nothing."""

    watched_start_ticks: int = 0
    """Start time of that process in `/proc/PID/stat`, as a guard against a reused pid; 0: any."""

    host: str = "127.0.0.1"
    """Address to listen on."""

    advertised_host: str = ""
    """Name or address others reach the server by; empty: `host`."""

    query_ports: str = SERVER_PORTS
    """Port, range or list for the state this server owns; a 0 in it: any free port."""

    proxy_ports: str = PROXY_PORTS
    """Port, range or list for all state; a 0 in it: any free port."""

    frame_ports: str = "0"
    """Port, range or list that takes look-ups as frames; 0: any free port; empty: look-ups are
    unary gRPC calls."""

    backend_ports: str = "0"
    """Port, range or list for tasks and the coordinator; 0: any free port."""

    backend: Backend = "heap"
    """Where the state lives."""

    rocksdb: dict[str, int] = field(default_factory=dict)
    """Fields of `RocksDBSettings` that are to differ from their defaults."""

    limits: Limits = field(default_factory=Limits)

    logs: LogSettings = field(default_factory=LogSettings)

    strict_determinism: bool = False
    """Refuse a second seal of a batch with another fingerprint, instead of logging an error."""

    compact_chunk_records: int = 300
    """Records folded into the base at once; a chunk holds the interpreter for its whole length."""

    default_deadline_ms: int = 10_000
    """How long a query without a deadline of its own may take."""

    coordinator_timeout_s: float = 30.0
    """How long the first registration may be retried."""

    orphan_timeout_s: float = 120.0
    """How long a server that cannot reach its coordinator lives on."""

    lame_duck_s: float = LAME_DUCK_S
    """How long a server that gets SIGTERM answers on while its health is NOT_SERVING; at least what
    load balancers and clients take to look at it. 0: not at all."""

    drain_timeout_s: float = 10.0
    """How long calls in flight may take when the server stops."""

    def __post_init__(self) -> None:
        if self.backend not in BACKENDS:
            raise InvalidRequestError(
                f"backend {self.backend!r} is not known: choose one of {', '.join(BACKENDS)}"
            )
        if not self.secret:
            raise InvalidRequestError("a state server needs the job's secret, and got none")

    @property
    def log_file(self) -> Path:
        """The log of this process."""
        if not self.logs.directory:
            return Path(self.directory) / SERVER_LOG
        return Path(self.logs.directory) / f"state-server-{self.executor_id}-{os.getpid()}.log"

    def to_json(self) -> str:
        """The settings, secret included, for the standard input of the process."""
        return json.dumps(dataclasses.asdict(self))

    @classmethod
    def from_json(cls, text: str) -> StateServerSettings:
        """Inverse of `to_json`."""
        return _from_json(cls, text)


@dataclass(frozen=True, kw_only=True)
class CoordinatorSettings:
    """Settings of the coordinator in the driver."""

    secret: str = field(default="", repr=False)
    """The job's secret, wanted on every call; empty: one is made."""

    host: str = "127.0.0.1"
    """Address to listen on."""

    advertised_host: str = ""
    """Name or address others reach the coordinator by; empty: `host`."""

    ports: str = COORDINATOR_PORTS
    """Port, range or list; a 0 in it: any free port."""

    lease_ms: int = 5_000
    """How long a state server may act as owner without a new lease."""

    lease_margin_ms: int = 1_000
    """What the coordinator waits beyond an expired lease before it assigns anew."""

    strict: bool = True
    """Stop a query that committed a batch which one of its operators missed, and withdraw the
    commit; False: log an error and go on without those records."""

    strict_determinism: bool = False
    """Stop a query whose batch had other input in a re-run, instead of logging an error."""

    retained_finished_jobs: int = 10
    """Ended jobs whose state is still served; beyond these, the oldest ends are dropped."""

    push_timeout_ms: int = 1_000
    """How long a state server may take to confirm a commit before a heartbeat has to repeat it."""

    reopen_after_ms: int = 5_000
    """After about how long without a batch what a lost server owned is opened on others."""

    manifest_timeout_ms: int = 60_000
    """How long a job waits for its root when a commit cannot be written there, before it fails."""

    stop_timeout_s: float = 10.0
    """How long state servers may take to drain when the coordinator stops."""

    workers: int = 64
    """Threads that answer calls."""

    @property
    def heartbeat_s(self) -> float:
        """Seconds between two renewals of a lease."""
        return self.lease_ms / LEASE_RENEWALS / 1000


@dataclass(frozen=True, kw_only=True)
class ProxySettings:
    """Settings of a proxy, alone or inside a state server."""

    coordinator_address: str
    """HOST:PORT of the coordinator."""

    secret: str = field(repr=False)
    """The job's secret, sent to the coordinator."""

    host: str = "127.0.0.1"
    """Address to listen on."""

    advertised_host: str = ""
    """Name or address others reach the proxy by; empty: `host`."""

    ports: str = PROXY_PORTS
    """Port, range or list; a 0 in it: any free port."""

    frame_ports: str = "0"
    """Port, range or list that takes look-ups as frames; 0: any free port; empty: look-ups are
    unary gRPC calls."""

    limits: Limits = field(default_factory=Limits)

    default_deadline_ms: int = 10_000
    """How long a query without a deadline of its own may take."""

    lame_duck_s: float = LAME_DUCK_S
    """How long a proxy that gets SIGTERM answers on while its health is NOT_SERVING; at least what
    load balancers and clients take to look at it. 0: not at all."""

    drain_timeout_s: float = 10.0
    """How long calls in flight may take when the proxy stops."""


_T = TypeVar("_T", bound="StateServerSettings")


def _from_json(cls: type[_T], text: str) -> _T:
    try:
        values: dict[str, Any] = json.loads(text)
        limits = Limits(**values.pop("limits", {}))
        logs = LogSettings(**values.pop("logs", {}))
        return cls(limits=limits, logs=logs, **values)
    except (ValueError, TypeError, AttributeError) as problem:
        raise InvalidRequestError(f"settings are not readable: {problem}") from problem
