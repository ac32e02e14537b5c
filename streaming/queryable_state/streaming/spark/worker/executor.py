"""The executor a Python worker belongs to, and the state server beside it."""

from __future__ import annotations

import functools
import os
import socket
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from queryable_state.wire.errors import InternalError

if TYPE_CHECKING:
    from queryable_state.server.settings import StateServerSettings

_EVERY_ADDRESS = "0.0.0.0"


@dataclass(frozen=True, kw_only=True)
class Executor:
    """The JVM that started this worker.

    The same JVM is another executor in another application: in local mode it
    outlives `spark.stop()`.
    """

    application_id: str
    pid: int
    start_ticks: int
    """As in `/proc/PID/stat`; 0 where there is none."""
    host: str
    """Name others reach this machine by."""

    @property
    def id(self) -> str:
        """Unique among the executors of all applications on all machines."""
        return f"{self.application_id}-{self.host}-{self.pid}-{self.start_ticks}"

    def directory(self, parent: str) -> Path:
        """Folder of this executor's state server under `parent`, or under Spark's local one."""
        name = f"queryable-state-{self.application_id}-{self.pid}-{self.start_ticks}"
        return Path(parent or _scratch()) / name

    def settings(self, template: StateServerSettings) -> StateServerSettings:
        """A template of the driver's, filled in for this executor."""
        advertised = template.advertised_host
        if template.host == _EVERY_ADDRESS and not advertised:
            advertised = self.host
        return replace(
            template,
            executor_id=self.id,
            directory=str(self.directory(template.directory)),
            watched_pid=self.pid,
            watched_start_ticks=self.start_ticks,
            advertised_host=advertised,
        )


@functools.lru_cache(maxsize=8)
def current_executor(application_id: str) -> Executor:
    """The executor of this process: its nearest ancestor that is a JVM.

    Between them is Spark's worker daemon, or nothing.
    """
    for ancestor in psutil.Process().parents():
        if ancestor.name() == "java":
            return Executor(
                application_id=application_id,
                pid=ancestor.pid,
                start_ticks=_start_ticks(ancestor.pid),
                host=_host(ancestor.cmdline()),
            )
    raise InternalError(
        "no Java process is an ancestor of this Python worker; operators run in the workers of "
        "Spark's executors"
    )


def _start_ticks(pid: int) -> int:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return 0
    # The command, in parentheses, may itself have spaces; the start is the 22nd field of all.
    return int(stat.rpartition(")")[2].split()[19])


def _host(command: list[str]) -> str:
    """The name Spark gave the executor, else the machine's own."""
    if "--hostname" in command[:-1]:
        return command[command.index("--hostname") + 1]
    return socket.gethostname()


def _scratch() -> str:
    """The first local directory of Spark; beside, not in, what it deletes with its blocks."""
    first = os.environ.get("SPARK_LOCAL_DIRS", "").split(",")[0]
    if not first:
        return tempfile.gettempdir()
    path = Path(first)
    return str(path.parent if path.name.startswith("blockmgr-") else path)
