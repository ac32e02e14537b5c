"""Settings of an environment, read from Spark's configuration, process environment and a file."""

from __future__ import annotations

import dataclasses
import os
import secrets
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from queryable_state.server.process.log_settings import LogSettings
from queryable_state.server.security.access.access_settings import AccessSettings
from queryable_state.server.serving.ports import PortSpec
from queryable_state.server.settings import (
    COORDINATOR_PORTS,
    LAME_DUCK_S,
    PROXY_PORTS,
    SERVER_PORTS,
    Limits,
)
from queryable_state.streaming.config.configuration import CONF_PREFIX, settings_of
from queryable_state.streaming.config.durability_settings import DurabilitySettings
from queryable_state.wire.errors import InvalidRequestError, Reason

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

MAX_PARALLELISM_LIMIT = 32767


@dataclass(frozen=True, kw_only=True)
class EnvironmentSettings(DurabilitySettings, AccessSettings):
    """Settings of one Spark application, and defaults for its jobs.

    Each field can be set as `spark.queryable_state.<field>` in Spark's configuration, as
    `QUERYABLE_STATE_<FIELD>` in the driver's environment, or in the TOML file that
    `spark.queryable_state.file` or `QUERYABLE_STATE_FILE` names, in this order of precedence. A
    setting that Flink has (`state.checkpoints.dir`) can be set by Flink's keys too; in Spark's
    configuration they need no prefix. Times and sizes may have units.
    """

    parallelism: int = field(default=0, metadata={"flink": ("parallelism.default",)})
    """Subtasks of a stateful operator; 0: `spark.sql.shuffle.partitions`, at most
    `max_parallelism`."""

    max_parallelism: int = field(default=128, metadata={"flink": ("pipeline.max-parallelism",)})
    """Key groups of a state; fixed for its lifetime. 1 to 32767, at least `parallelism`."""

    host: str = ""
    """Address the coordinator and the state servers listen on; empty: the loopback address if all
    executors are on this machine, else all addresses."""

    coordinator_host: str = ""
    """Host name under which servers reach the coordinator; empty: `spark.driver.host`."""

    coordinator_ports: str = COORDINATOR_PORTS
    """Port, range or list; 0 means any free port. If none is free, the application does not start.
    """

    server_ports: str = field(
        default=SERVER_PORTS, metadata={"flink": ("queryable-state.server.ports",)}
    )
    """Port, range or list for queries that a state server answers from its own state; 0 means any
    free port. If none is free, tasks fail. Each executor of a machine needs its own port."""

    proxy_ports: str = field(
        default=PROXY_PORTS, metadata={"flink": ("queryable-state.proxy.ports",)}
    )
    """Port, range or list for queries that a state server answers or forwards; same rules as
    `server_ports`."""

    frame_ports: str = "0"
    """Port, range or list of the frame port; a state server needs two, one for each of the ports
    above. 0: any free port; empty: look-ups are unary gRPC calls."""

    queryable_state_enable: bool = field(
        default=True, metadata={"flink": ("queryable-state.enable",)}
    )
    """Must be true: state servers always answer queries."""

    plain_grpc: bool = False
    """True serves gRPC with `grpc.aio` alone: slower, and without undocumented parts of grpcio."""

    secret: str = field(default="", repr=False)
    """Secret that signs every call between the parts of the application; empty: a random one.
    Executors can read Spark's configuration: set it in the environment or the file instead."""

    strict: bool = True
    """True: stop a query that committed a batch which one of its operators missed, and withdraw the
    commit; False: log an error and continue without those records."""

    strict_determinism: bool = False
    """True: stop a query if a replayed batch has other input; False: log an error."""

    lease_ms: int = 5_000
    """How long a state server may act as owner without a renewed lease."""

    lease_margin_ms: int = 1_000
    """Time the coordinator waits after a lease expires before it assigns the subtasks to another
    owner."""

    lame_duck_s: float = LAME_DUCK_S
    """How long a state server still answers after SIGTERM, with the health NOT_SERVING; at least
    the health check interval of load balancers and clients."""

    task_timeout_s: float = 60.0
    """How long one step of a task may wait for a state server, including retries."""

    key_bytes: int = Limits.key_bytes
    """Maximum bytes of an encoded key."""

    value_bytes: int = Limits.value_bytes
    """Maximum bytes of an encoded value, list chunk or map entry."""

    key_json_bytes: int = Limits.key_json_bytes
    """Maximum bytes of a JSON key in a query."""

    batch_keys: int = Limits.batch_keys
    """Maximum keys of one query."""

    request_bytes: int = Limits.request_bytes
    """Maximum bytes of a client's request."""

    max_staged_bytes: int = Limits.max_staged_bytes
    """Maximum bytes staged and not yet committed on one state server; further writes are refused.
    """

    retained_finished_jobs: int = 10
    """Ended jobs whose state is still served; beyond that, the jobs that ended first are dropped.
    """

    log_level: str = LogSettings.level
    """Level of state server logs: DEBUG, INFO, WARNING or ERROR."""

    log_dir: str = ""
    """Folder on each executor for state server logs, which stay there; empty: the server's own
    folder, which is deleted on an orderly shutdown. The driver logs the path of each file."""

    log_file_bytes: int = LogSettings.file_bytes
    """Size at which a log file of a state server is rotated."""

    log_files: int = LogSettings.files
    """Rotated log files to keep."""

    directory: str = ""
    """Folder on each executor for live stores and logs; empty: a folder in Spark's local
    directories, else in the temporary directory."""

    flink_options: Mapping[str, Any] = field(
        default_factory=dict, repr=False, metadata={"derived": True}
    )
    """Flink's execution options that are set, by key; see `ExecutionConfig`."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.queryable_state_enable:
            raise InvalidRequestError(
                "queryable-state.enable is false, but state servers always answer queries: remove "
                "the key. A state without a queryable name is not visible to clients",
                reason=Reason.UNSUPPORTED,
            )
        check_parallelism(self.parallelism, self.max_parallelism)
        for ports in ("coordinator_ports", "server_ports", "proxy_ports"):
            PortSpec.parse(getattr(self, ports), CONF_PREFIX + ports)
        if self.frame_ports:
            frames = PortSpec.parse(self.frame_ports, CONF_PREFIX + "frame_ports")
            if len(frames.ports) < 2 and 0 not in frames.ports:
                raise InvalidRequestError(
                    f"{frames.what} is {frames.text!r}, but a state server listens on two frame "
                    "ports, one for its own state and one for its proxy: set a range with two "
                    "ports for each executor of a machine, or 0 for any free ports"
                )

    @classmethod
    def load(
        cls, conf: Mapping[str, str], environment: Mapping[str, str] = os.environ
    ) -> EnvironmentSettings:
        """Reads the settings from a Spark configuration, an environment and the file they name."""
        parsed = settings_of(dataclasses.fields(cls), conf, environment)
        return cls(**parsed.values, flink_options=parsed.options)

    def with_secret(self) -> EnvironmentSettings:
        """These settings, with a random secret if none is set."""
        if self.secret:
            return self
        return dataclasses.replace(self, secret=secrets.token_urlsafe(32))


def check_given_parallelism(parallelism: int) -> None:
    """Raises InvalidRequestError for a parallelism below 1."""
    if parallelism < 1:
        raise InvalidRequestError(f"parallelism must be at least 1, not {parallelism}")


def check_parallelism(parallelism: int, max_parallelism: int) -> None:
    """Raises InvalidRequestError unless 1 <= `max_parallelism` <= 32767 and 0 (not set) <=
    `parallelism` <= `max_parallelism`."""
    if not 1 <= max_parallelism <= MAX_PARALLELISM_LIMIT:
        raise InvalidRequestError(
            f"max_parallelism must be 1 to {MAX_PARALLELISM_LIMIT}, not {max_parallelism}"
        )
    if parallelism < 0:
        raise InvalidRequestError(f"parallelism must be at least 1, not {parallelism}")
    if parallelism > max_parallelism:
        raise InvalidRequestError(
            f"parallelism {parallelism} exceeds max_parallelism {max_parallelism}, so a subtask "
            "would own no key group; lower parallelism, or raise max_parallelism, which is fixed "
            "once a state exists"
        )


def joined(names: Iterable[str]) -> str:
    """The names as `a, b, c`, or `none`."""
    return ", ".join(names) or "none"
