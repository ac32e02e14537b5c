"""Finding and ending the processes of a round: all of them work in a folder of its own."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

if TYPE_CHECKING:
    from collections.abc import Callable

_POLL_S = 0.02


class StuckError(Exception):
    """A condition did not come true in time."""


def until(condition: Callable[[], object], timeout_s: float, what: str) -> None:
    """Returns once the condition holds; raises `StuckError` after the time."""
    ends_at_s = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > ends_at_s:
            raise StuckError(f"{what}: not within {timeout_s:g} s")
        time.sleep(_POLL_S)


def under(folder: Path) -> list[psutil.Process]:
    """Processes that work in a folder or below it, also where it is gone; zombies are over."""
    prefix = str(folder)
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            cwd = str((entry / "cwd").readlink()).removesuffix(" (deleted)")
            if cwd == prefix or cwd.startswith(prefix + "/"):
                process = psutil.Process(int(entry.name))
                if process.status() != psutil.STATUS_ZOMBIE:
                    found.append(process)
        except (OSError, psutil.Error):
            continue
    return sorted(found, key=lambda process: process.pid)


def executors_under(folder: Path) -> list[psutil.Process]:
    """The JVMs of executors that work in a folder or below it, oldest first."""
    found = []
    for process in under(folder):
        with contextlib.suppress(psutil.Error):
            if "--executor-id" in process.cmdline():
                found.append(process)
    return found


def is_alive(pid: int) -> bool:
    """Whether a process runs; a zombie does not."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


def kill(*pids: int) -> None:
    """kill -9; who is gone is gone."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def describe(process: psutil.Process) -> str:
    """A process for people."""
    try:
        return f"{process.pid} ({' '.join(process.cmdline())[:120]})"
    except psutil.Error:
        return str(process.pid)
