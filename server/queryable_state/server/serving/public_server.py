"""Lifecycle that the servers with public ports share."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from queryable_state.server.serving.graceful_shutdown import GracefulShutdown

if TYPE_CHECKING:
    from queryable_state.server.process.loop_watchdog import LoopWatchdog


class PublicServer:
    """Serves while `async with` lasts; subclasses start in `__aenter__`, which fills `_stack`."""

    def __init__(
        self, shutdown: GracefulShutdown | None = None, watchdog: LoopWatchdog | None = None
    ) -> None:
        """`shutdown` ends the server; None: only `aclose` does."""
        self.shutdown = GracefulShutdown() if shutdown is None else shutdown
        self.web_address = ""
        """URL of REST and the page, once entered; empty if `web` is off."""
        self._watchdog = watchdog
        self._stack = contextlib.AsyncExitStack()

    async def wait_stopped(self) -> None:
        """Waits for a stop, or for the end of the lame-duck time."""
        await self.shutdown.stopping.wait()

    async def aclose(self) -> None:
        """Answers the calls it has read, then ends; idempotent."""
        self.shutdown.stop()
        await self._stack.aclose()

    async def __aexit__(self, *exc_info: object) -> None:
        await self.aclose()
