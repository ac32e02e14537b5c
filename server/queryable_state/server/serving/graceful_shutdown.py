"""Graceful shutdown of a serving process, in three steps."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

_log = logging.getLogger(__name__)


class GracefulShutdown:
    """The shutdown of a server. Any step may come first; each leads to the next.

    `leave`: the server is a lame duck. Its health is NOT_SERVING, clients with streams are
    asked to reconnect elsewhere, and it answers as before until the grace time ends. `stop`: it
    accepts no new calls and answers those it has read, for at most the drain time. `give_up`: it
    ends at once and drops unanswered calls. For one event loop.
    """

    def __init__(self) -> None:
        self.leaving = asyncio.Event()
        """Set by the first step, whichever it is."""
        self.stopping = asyncio.Event()
        self._given_up = False
        self._limits: set[asyncio.Timeout] = set()

    def leave(self) -> None:
        """Ends after the grace time and the drain time."""
        self.leaving.set()

    def stop(self) -> None:
        """Ends after the drain time."""
        self.leaving.set()
        self.stopping.set()

    def give_up(self) -> None:
        """Ends now."""
        self._given_up = True
        self.stop()
        now = asyncio.get_running_loop().time()
        for limit in tuple(self._limits):
            if not limit.expired():
                limit.reschedule(now)

    @contextlib.asynccontextmanager
    async def limited(self, timeout_s: float) -> AsyncIterator[None]:
        """Cancels its block after this time, and at once after `give_up`."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(0 if self._given_up else timeout_s) as limit:
                self._limits.add(limit)
                try:
                    yield
                finally:
                    self._limits.discard(limit)

    def on_signals(self) -> None:
        """Handles signals: SIGTERM leaves, SIGINT stops, a second signal gives up."""
        loop = asyncio.get_running_loop()
        for number, first_step in ((signal.SIGTERM, self.leave), (signal.SIGINT, self.stop)):
            loop.add_signal_handler(number, self._on_signal, number, first_step)

    def _on_signal(self, number: signal.Signals, first_step: Callable[[], None]) -> None:
        if self.leaving.is_set() or self.stopping.is_set():
            _log.warning("%s during the shutdown: ends at once", number.name)
            self.give_up()
        else:
            _log.info("%s: shuts down", number.name)
            first_step()
