"""The process this one must not outlive."""

from __future__ import annotations

import asyncio
import os
import select
from pathlib import Path


def start_ticks(pid: int) -> int:
    """Start time of a process in clock ticks since boot; 0: it is gone."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return 0
    # The command in parentheses may hold spaces and parentheses itself.
    return int(stat.rpartition(")")[2].split()[19])


class ParentProcess:
    """Waits for the end of a process by its pidfd: a reused pid or a zombie does not deceive it."""

    def __init__(self, pid: int, expected_start_ticks: int = 0) -> None:
        self.pid = pid
        self._fd: int | None = None
        try:
            self._fd = os.pidfd_open(pid)
        except ProcessLookupError:
            return
        # Asked after opening, so that it is of the very process the descriptor stands for.
        if expected_start_ticks and start_ticks(pid) != expected_start_ticks:
            self.close()

    def has_ended(self) -> bool:
        """Whether the process has ended."""
        return self._fd is None or bool(select.select([self._fd], [], [], 0)[0])

    async def wait(self) -> None:
        """Returns once the process has ended."""
        if self._fd is None:
            return
        loop = asyncio.get_running_loop()
        ended = asyncio.Event()
        loop.add_reader(self._fd, ended.set)
        try:
            await ended.wait()
        finally:
            loop.remove_reader(self._fd)

    def close(self) -> None:
        """Lets go of the process; idempotent."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None
