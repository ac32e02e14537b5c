"""Identity of a Python worker's executor, and settings of its state server."""

from __future__ import annotations

import functools
import os
import socket
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from queryable_state.server.serving.advertised import environment_host
from queryable_state.streaming.spark.shipped_files import (
    access_on_this_machine,
    tls_on_this_machine,
)
from queryable_state.wire.addresses import is_wildcard
from queryable_state.wire.errors import InternalError

if TYPE_CHECKING:
    from queryable_state.server.state_server.settings import StateServerSettings


@dataclass(frozen=True, kw_only=True)
class Executor:
    """The JVM that started this worker.

    In local mode the JVM outlives `spark.stop()`; in the next application it is another executor.
    """

    application_id: str
    pid: int
    start_ticks: int
    """Start time of the process from `/proc/PID/stat`; 0 if there is no such file."""
    host: str
    """Name or address of this machine for other machines, as Spark knows it."""

    @property
    def id(self) -> str:
        """Unique among the executors of all applications on all machines."""
        return f"{self.application_id}-{self.host}-{self.pid}-{self.start_ticks}"

    def directory(self, parent: str) -> Path:
        """Folder of this executor's state server, under `parent` or Spark's local directory."""
        name = f"queryable-state-{self.application_id}-{self.pid}-{self.start_ticks}"
        return Path(parent or _scratch()) / name

    def settings(self, template: StateServerSettings) -> StateServerSettings:
        """The driver's template, completed for this executor.

        Raises `InvalidRequestError` if `QUERYABLE_STATE_ADVERTISED_HOST` is no host.
        """
        advertised = environment_host() or template.advertised_host
        if is_wildcard(template.host) and not advertised:
            advertised = self.host
        return template.completed(
            executor_id=self.id,
            directory=str(self.directory(template.directory)),
            watched_pid=self.pid,
            watched_start_ticks=self.start_ticks,
            advertised_host=advertised,
            tls=tls_on_this_machine(template.tls),
            access=access_on_this_machine(template.access),
        )


@functools.lru_cache(maxsize=8)
def current_executor(application_id: str) -> Executor:
    """The executor of this process: its nearest JVM ancestor, the parent of Spark's worker daemon
    or of the worker itself."""
    for ancestor in psutil.Process().parents():
        if ancestor.name() == "java":
            return Executor(
                application_id=application_id,
                pid=ancestor.pid,
                start_ticks=_start_ticks(ancestor.pid),
                host=_host(ancestor.cmdline()),
            )
    raise InternalError(
        "this Python process has no Java process as an ancestor; operators run only in the Python "
        "workers of Spark's executors"
    )


@functools.lru_cache(maxsize=8)
def server_directory(application_id: str, parent: str) -> Path:
    """Folder of the state server of the executor of this process; see `Executor.directory`."""
    return current_executor(application_id).directory(parent)


def _start_ticks(pid: int) -> int:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return 0
    # The command, in parentheses, may contain spaces. The start time is the 22nd field.
    return int(stat.rpartition(")")[2].split()[19])


def _host(command: list[str]) -> str:
    """The executor's host name from Spark, else the machine's host name."""
    if "--hostname" in command[:-1]:
        return command[command.index("--hostname") + 1].strip("[]")
    return socket.gethostname()


def _scratch() -> str:
    """Spark's first local directory. A `blockmgr-` folder, which Spark deletes, is replaced by its
    parent."""
    first = os.environ.get("SPARK_LOCAL_DIRS", "").split(",")[0]
    if not first:
        return tempfile.gettempdir()
    path = Path(first)
    return str(path.parent if path.name.startswith("blockmgr-") else path)
