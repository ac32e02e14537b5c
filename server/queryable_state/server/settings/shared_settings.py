"""Settings that several kinds of process share: serving, log, web port, leases, tasks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal
from urllib.parse import urlsplit

from queryable_state.server.config.setting import (
    DAY_MS,
    DAY_S,
    GIB,
    HOUR_MS,
    HOUR_S,
    KIB,
    MIB,
    SettingsGroup,
    setting,
)
from queryable_state.server.serving.listen_settings import ports_setting

Backend = Literal["heap", "rocksdb"]
BACKENDS: tuple[Backend, ...] = ("heap", "rocksdb")
"""The storage backends of state servers."""

LOG_LEVELS: Final = ("DEBUG", "INFO", "WARNING", "ERROR")

LEASE_RENEWALS = 3
"""Heartbeats in the time of a lease: two may be lost before it expires."""

WebMode = Literal["auto", "on", "off"]
WEB_MODES: tuple[WebMode, ...] = ("auto", "on", "off")

WEB_PORTS = "8081-8181"


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


@dataclass(frozen=True, kw_only=True)
class LogLevel(SettingsGroup):
    """Level of the log of a process."""

    log_level: str = setting("INFO", choices=LOG_LEVELS)
    """Lowest level of the lines that a process logs."""


@dataclass(frozen=True, kw_only=True)
class LogSettings(LogLevel):
    """Level, folder and size of the log of a state server."""

    log_dir: str = ""
    """Folder on each executor for state server logs, which stay there; empty: the server's own
    folder, which is deleted on an orderly shutdown. The driver logs the path of each file."""

    log_file_bytes: int = setting(16 * MIB, least=KIB, most=64 * GIB)
    """Size at which a log file of a state server is rotated."""

    log_files: int = setting(4, least=1, most=1_000)
    """Rotated log files to keep beside the current one."""


@dataclass(frozen=True, kw_only=True)
class BatchSettings(SettingsGroup):
    """Leases of state servers, and rules of batches and jobs."""

    lease_ms: int = setting(5_000, least=300, most=HOUR_MS)
    """How long a state server may act as owner without a renewed lease; it renews it three times
    in this time."""

    lease_margin_ms: int = setting(1_000, least=100, most=HOUR_MS)
    """Time the coordinator waits after a lease expires before it assigns the subtasks to another
    owner; at most `lease_ms`. It covers differences of the clocks of two machines."""

    strict: bool = True
    """True: stop a query that committed a batch which one of its operators missed, and withdraw the
    commit; False: log an error and continue without those records."""

    strict_determinism: bool = False
    """True: stop a query if a replayed batch has other input; False: log an error."""

    retained_finished_jobs: int = setting(10, least=0, most=10_000)
    """Ended jobs whose state is still served; beyond that, the jobs that ended first are dropped.
    """

    push_timeout_ms: int = setting(1_000, least=10, most=HOUR_MS)
    """How long a state server may take to acknowledge a commit before a heartbeat repeats it."""

    reopen_after_ms: int = setting(5_000, least=10, most=DAY_MS)
    """Time without a batch after which other servers restore the subtasks of a lost one."""

    manifest_timeout_ms: int = setting(60_000, least=100, most=DAY_MS)
    """How long writing a manifest is retried before the job fails."""

    @property
    def heartbeat_s(self) -> float:
        """Seconds between two renewals of a lease."""
        return self.lease_ms / LEASE_RENEWALS / 1000

    def check_relations(self) -> None:
        super().check_relations()
        self.require(
            self.lease_margin_ms <= self.lease_ms,
            ("lease_margin_ms", "lease_ms"),
            "the margin must not be longer than the lease; lower the margin or raise the lease",
        )


@dataclass(frozen=True, kw_only=True)
class TaskSettings(SettingsGroup):
    """What users set of the tasks of a job."""

    task_timeout_s: float = setting(60.0, least=0.1, most=DAY_S)
    """How long one step of a task (locate and begin, a fetch, prepare) may wait for a state
    server, including retries, before the task fails."""

    hot_keys: bool = True
    """True: tasks and state servers count the keys that rows and queries touch most often, over
    the last minute, for `hot_keys` of the client. False: they count nothing."""


def origins_of(text: str) -> frozenset[str]:
    """The origins of a list with commas; raises `ValueError` for what is no origin."""
    origins = frozenset(filter(None, (each.strip() for each in text.split(","))))
    for origin in origins:
        parts = urlsplit(origin)
        if parts.scheme not in ("http", "https") or origin != f"{parts.scheme}://{parts.netloc}":
            raise ValueError(
                f"{origin!r} is not an origin: write scheme, host and port without a path, as in "
                "https://dashboards.example:3000"
            )
    return origins


def _check_origins(text: str) -> None:
    origins_of(text)


@dataclass(frozen=True, kw_only=True)
class WebSettings(SettingsGroup):
    """The web port of a process: REST, watches as server-sent events, and the page."""

    web: WebMode = setting("auto", choices=WEB_MODES)
    """`on`: the process serves REST and the page; `off`: it does not; `auto`: a stand-alone proxy
    does, a driver if `spark.ui.enabled`. A driver starts a process of its own for it."""

    web_ports: str = ports_setting(WEB_PORTS, flags=("--web-port",))
    """Port, range or list of the web port; a 0 in it: any free port."""

    web_allowed_origins: str = setting("", check=_check_origins)
    """Origins (`https://dashboards.example`), with commas between, whose pages may use the REST
    paths in a browser (CORS); empty: only the page itself."""

    @property
    def allowed_origins(self) -> frozenset[str]:
        """The origins of `web_allowed_origins`."""
        return origins_of(self.web_allowed_origins)
