"""Settings of a state server process."""

from __future__ import annotations

import dataclasses
import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from queryable_state.server.config.limits import Limits
from queryable_state.server.config.setting import DAY_S, LARGEST_INT, setting
from queryable_state.server.security.access.access_settings import AccessSettings
from queryable_state.server.security.tls_settings import TlsSettings
from queryable_state.server.serving.listen_settings import ServerPorts, host_setting
from queryable_state.server.settings.shared_settings import (
    BACKENDS,
    Backend,
    LogSettings,
    ServingSettings,
)
from queryable_state.wire.errors import InvalidRequestError

SERVER_LOG = "server.log"


def _not_empty(text: str) -> None:
    if not text:
        raise ValueError("it is empty, but every internal call needs it")


def _without_origins(items: list[tuple[str, Any]]) -> dict[str, Any]:
    return {name: value for name, value in items if name != "origins"}


@dataclass(frozen=True, kw_only=True)
class StateServerSettings(ServingSettings):
    """Settings of one state server process."""

    coordinator_address: str
    """HOST:PORT of the coordinator."""

    secret: str = setting(secret=True, check=_not_empty)
    """The job's secret, by which every internal call is signed; it never travels."""

    executor_id: str
    """The executor of the server; unique in one application."""

    directory: str
    """Folder of `server.json`, log and live store files, which the server owns."""

    watched_pid: int = setting(0, least=0, most=LARGEST_INT)
    """The server ends when this process ends; 0: no process."""

    watched_start_ticks: int = setting(0, least=0, most=LARGEST_INT)
    """Start time of that process in `/proc/PID/stat`, as a guard against a reused pid; 0: any."""

    host: str = host_setting("127.0.0.1")
    """Address to listen on."""

    advertised_host: str = ""
    """Name or address at which others reach the server; empty: `host`, or a name of the machine if
    that is all addresses."""

    ports: ServerPorts = field(default_factory=ServerPorts)

    backend: Backend = setting("heap", choices=BACKENDS)
    """The state backend."""

    rocksdb: dict[str, int] = field(default_factory=dict)
    """Fields of `RocksDBSettings` other than the defaults."""

    limits: Limits = field(default_factory=Limits)

    tls: TlsSettings = field(default_factory=TlsSettings)

    logs: LogSettings = field(default_factory=LogSettings)

    access: AccessSettings = field(default_factory=AccessSettings)

    strict_determinism: bool = False
    """Refuse a second seal of a batch with another fingerprint, instead of logging an error."""

    hot_keys: bool = True
    """Count the keys that queries ask for most often."""

    compact_chunk_records: int = setting(300, least=1, most=1_000_000)
    """Records that one step compacts into the base; a step may hold the GIL."""

    coordinator_timeout_s: float = setting(30.0, least=0, most=DAY_S)
    """How long the first registration is retried. 0: it is tried once."""

    orphan_timeout_s: float = setting(120.0, least=1, most=DAY_S)
    """Time after which a server that cannot reach its coordinator ends."""

    @property
    def log_file(self) -> Path:
        """Path of the log of this process."""
        if not self.logs.log_dir:
            return Path(self.directory) / SERVER_LOG
        return Path(self.logs.log_dir) / f"state-server-{self.executor_id}-{os.getpid()}.log"

    def to_json(self) -> str:
        """The settings, secret included, for the standard input of the process."""
        return json.dumps(dataclasses.asdict(self, dict_factory=_without_origins))

    @classmethod
    def from_json(cls, text: str) -> StateServerSettings:
        """Inverse of `to_json`."""
        try:
            values: dict[str, Any] = json.loads(text)
            limits = Limits(**values.pop("limits", {}))
            logs = LogSettings(**values.pop("logs", {}))
            ports = ServerPorts(**values.pop("ports", {}))
            tls = TlsSettings(**values.pop("tls", {}))
            access = AccessSettings(**values.pop("access", {}))
            return cls(limits=limits, logs=logs, ports=ports, tls=tls, access=access, **values)
        except (ValueError, TypeError, AttributeError) as problem:
            raise InvalidRequestError(f"settings are not readable: {problem}") from problem
