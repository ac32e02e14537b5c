"""Watch over the parent process, which this process must not outlive."""

from __future__ import annotations

import asyncio
import os
import select
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from queryable_state.server.serving.graceful_shutdown import GracefulShutdown


def start_ticks(pid: int) -> int:
    """Returns the start time of a process in clock ticks since boot; 0 if it has ended."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return 0
    # The command, in parentheses, may itself contain spaces and parentheses.
    return int(stat.rpartition(")")[2].split()[19])


class ParentProcess:
    """Detects the end of a process by its pidfd, which a reused pid or a zombie cannot fool."""

    def __init__(self, pid: int, expected_start_ticks: int = 0) -> None:
        self.pid = pid
        self._fd: int | None = None
        try:
            self._fd = os.pidfd_open(pid)
        except ProcessLookupError:
            return
        # Read after the pidfd is open, so that both belong to the same process.
        if expected_start_ticks and start_ticks(pid) != expected_start_ticks:
            self.close()

    def has_ended(self) -> bool:
        """True if the process has ended."""
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
        """Closes the pidfd; idempotent."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None


@asynccontextmanager
async def stopping_with(pid: int, shutdown: GracefulShutdown) -> AsyncIterator[None]:
    """Stops this process once the process `pid` has ended, while the block lasts; 0: never."""
    if not pid:
        yield
        return
    parent = ParentProcess(pid)
    watching = asyncio.create_task(_stop_after(parent, shutdown))
    try:
        yield
    finally:
        watching.cancel()
        await asyncio.wait([watching])
        parent.close()


async def _stop_after(parent: ParentProcess, shutdown: GracefulShutdown) -> None:
    await parent.wait()
    shutdown.stop()
