"""What can be set on an environment: frozen data, read from Spark's configuration, the
environment and a file."""

from __future__ import annotations

import dataclasses
import os
import secrets
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from queryable_state.server.process.log_settings import LogSettings
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
from queryable_state.wire.errors import InvalidRequestError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

MAX_PARALLELISM_LIMIT = 32767


@dataclass(frozen=True, kw_only=True)
class EnvironmentSettings(DurabilitySettings):
    """Settings of one Spark application and, where a job sets nothing else, of its jobs.

    Each field can be set as `spark.queryable_state.<field>` in Spark's configuration, as
    `QUERYABLE_STATE_<FIELD>` in the driver's environment, or in the TOML file that
    `spark.queryable_state.file` or `QUERYABLE_STATE_FILE` names; the first one that is set counts.
    What PyFlink has a name for (`state.checkpoints.dir`) is known by that one too, in Spark's
    configuration also without our prefix. Times and sizes may have units.
    """

    parallelism: int = 0
    """Subtasks of a stateful operator; 0: as `spark.sql.shuffle.partitions`, but at most
    `max_parallelism`."""

    max_parallelism: int = 128
    """Key groups of a state; fixed for its life. 1 to 32767, at least `parallelism`."""

    host: str = ""
    """Address the coordinator and the state servers listen on; empty: the loopback address where
    all executors are on this machine, else every address."""

    coordinator_host: str = ""
    """Name others reach the coordinator by; empty: `spark.driver.host`."""

    coordinator_ports: str = COORDINATOR_PORTS
    """Port, range or list; a 0 in it: any free port. None free: the application does not start."""

    server_ports: str = SERVER_PORTS
    """Port, range or list for the queries a state server answers from its own state; a 0 in it: any
    free port. None free: tasks fail. Executors of one machine need a port each."""

    proxy_ports: str = PROXY_PORTS
    """Port, range or list for the queries a state server answers or passes on; as
    `server_ports`."""

    frame_ports: str = "0"
    """Port, range or list where a state server takes look-ups as frames, one for each of the two
    above; 0: any free port; empty: look-ups are unary gRPC calls."""

    plain_grpc: bool = False
    """Serve gRPC with `grpc.aio` alone: slower, and without the undocumented core of grpcio."""

    secret: str = field(default="", repr=False)
    """Wanted on every call between the parts of the application; empty: a random one. Executors
    see the configuration of Spark: a secret is better set in the environment or the file."""

    strict: bool = True
    """Stop a query that committed a batch which one of its operators missed, and withdraw the
    commit; False: log an error and go on without those records."""

    strict_determinism: bool = False
    """Stop a query whose batch had other input in a re-run, instead of logging an error."""

    lease_ms: int = 5_000
    """How long a state server may act as owner without a new lease."""

    lease_margin_ms: int = 1_000
    """What the coordinator waits beyond an expired lease before it assigns anew."""

    lame_duck_s: float = LAME_DUCK_S
    """How long a state server that gets SIGTERM answers on while its health is NOT_SERVING; at
    least what load balancers and clients take to look at it."""

    task_timeout_s: float = 60.0
    """How long one step of a task may wait for a state server, retries included."""

    key_bytes: int = Limits.key_bytes
    """Longest encoded key."""

    value_bytes: int = Limits.value_bytes
    """Longest encoded value, list chunk or map entry."""

    key_json_bytes: int = Limits.key_json_bytes
    """Longest key in JSON that a query may have."""

    batch_keys: int = Limits.batch_keys
    """Most keys of one query."""

    request_bytes: int = Limits.request_bytes
    """Longest request of a client."""

    max_staged_bytes: int = Limits.max_staged_bytes
    """Bytes written and not yet committed on one state server; what is beyond is refused."""

    retained_finished_jobs: int = 10
    """Ended jobs whose state is still served; beyond these, the oldest ends are dropped."""

    log_level: str = LogSettings.level
    """Of the lines in the logs of state servers: DEBUG, INFO, WARNING or ERROR."""

    log_dir: str = ""
    """Folder on each executor for the logs of its state servers, where they stay; empty: the
    server's own folder, which goes with an orderly end. The driver's log names each file."""

    log_file_bytes: int = LogSettings.file_bytes
    """Size at which a log file of a state server is put aside and the next one begun."""

    log_files: int = LogSettings.files
    """Log files that are kept beside the current one."""

    directory: str = ""
    """Folder on each executor for live stores and logs; empty: the one of Spark's local
    directories, else of temporary files."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_parallelism(self.parallelism, self.max_parallelism)
        for ports in ("coordinator_ports", "server_ports", "proxy_ports"):
            PortSpec.parse(getattr(self, ports), CONF_PREFIX + ports)
        if self.frame_ports:
            frames = PortSpec.parse(self.frame_ports, CONF_PREFIX + "frame_ports")
            if len(frames.ports) < 2 and 0 not in frames.ports:
                raise InvalidRequestError(
                    f"{frames.what} is {frames.text!r}, and a state server listens on two frame "
                    "ports, one for its own state and one for its proxy: state a range of two "
                    "ports for each executor of a machine, or 0 for any free ports"
                )

    @classmethod
    def load(
        cls, conf: Mapping[str, str], environment: Mapping[str, str] = os.environ
    ) -> EnvironmentSettings:
        """The settings of a whole Spark configuration, an environment and the file they name."""
        return cls(**settings_of(dataclasses.fields(cls), conf, environment))

    def with_secret(self) -> EnvironmentSettings:
        """These settings with a random secret where none is set."""
        if self.secret:
            return self
        return dataclasses.replace(self, secret=secrets.token_urlsafe(32))


def check_parallelism(parallelism: int, max_parallelism: int) -> None:
    """Refuses what cannot be: p from 0 (not set) to m, m from 1 to 32767."""
    if not 1 <= max_parallelism <= MAX_PARALLELISM_LIMIT:
        raise InvalidRequestError(
            f"max_parallelism is 1 to {MAX_PARALLELISM_LIMIT}, not {max_parallelism}"
        )
    if parallelism < 0:
        raise InvalidRequestError(f"parallelism is at least 1, not {parallelism}")
    if parallelism > max_parallelism:
        raise InvalidRequestError(
            f"parallelism {parallelism} is over max_parallelism {max_parallelism}: a subtask would "
            "own no key group; lower the one or raise the other, which is fixed once a state exists"
        )


def joined(names: Iterable[str]) -> str:
    """Names for an error text: `a, b, c`, or `none`."""
    return ", ".join(names) or "none"
