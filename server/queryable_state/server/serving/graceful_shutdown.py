"""The end of a serving process, in three steps that a person or a supervisor asks for."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable

    from queryable_state.server.serving.query_server import QueryServer

_log = logging.getLogger(__name__)


class GracefulShutdown:
    """How a server is asked to end. Every step may be the first, and leads on to the next.

    `leave`: it is a lame duck. Health is NOT_SERVING, streams are told to go elsewhere, and
    everything is answered as before, until the grace time is over. `stop`: what was read is
    answered, nothing new is taken, and calls have the time to drain. `give_up`: it ends at once,
    and what is unanswered is cut off. On one event loop.
    """

    def __init__(self) -> None:
        self.leaving = asyncio.Event()
        """Set by the first step, whichever that is."""
        self.stopping = asyncio.Event()
        self._given_up = False
        self._limits: set[asyncio.Timeout] = set()

    def leave(self) -> None:
        """Ends after the grace time and the time to drain."""
        self.leaving.set()

    def stop(self) -> None:
        """Ends after the time to drain."""
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
        """Leaves its block after so long, and at once when the server is given up."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(0 if self._given_up else timeout_s) as limit:
                self._limits.add(limit)
                try:
                    yield
                finally:
                    self._limits.discard(limit)

    def on_signals(self) -> None:
        """SIGTERM leaves, SIGINT stops; whichever comes after the first one gives up."""
        loop = asyncio.get_running_loop()
        for number, first_step in ((signal.SIGTERM, self.leave), (signal.SIGINT, self.stop)):
            loop.add_signal_handler(number, self._on_signal, number, first_step)

    def _on_signal(self, number: signal.Signals, first_step: Callable[[], None]) -> None:
        if self.leaving.is_set() or self.stopping.is_set():
            _log.warning("%s while it ends: ends at once", number.name)
            self.give_up()
        else:
            _log.info("%s: ends", number.name)
            first_step()


async def be_lame_duck(
    ending: GracefulShutdown, servers: Iterable[QueryServer], grace_s: float
) -> None:
    """Waits until the process is to leave, then sees to the grace time and has it stop."""
    await ending.leaving.wait()
    if ending.stopping.is_set():
        return
    _log.info("lame duck for %g s: NOT_SERVING, and still answering", grace_s)
    for server in servers:
        server.leave()
    async with ending.limited(grace_s):
        await ending.stopping.wait()
    ending.stop()
