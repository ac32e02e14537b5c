"""Completion queue of gRPC's core, connected to the event loop."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import deque
from typing import TYPE_CHECKING, Any

from queryable_state.server.grpc_core.core import cygrpc

if TYPE_CHECKING:
    from collections.abc import Callable

_log = logging.getLogger(__name__)


# Events passed to the loop at once: bounds the time that other callbacks wait.
_MOST_HANDED = 64


class Completions:
    """A completion queue of the core and the thread that polls it.

    The tag of an operation on `queue` is a function: the thread calls it with the event, and it
    must not block. `hand` passes work to the loop.

    Thread and loop take turns: the thread collects all pending events, the loop processes them,
    and then the thread polls again. Both need the interpreter lock, and switching it for every
    event would cost more than processing the events.
    """

    def __init__(self) -> None:
        self.queue: Any = cygrpc.CompletionQueue()
        self._thread = threading.Thread(target=self._run, name="gRPC core", daemon=True)
        self._handed: deque[tuple[Callable[[Any], None], Any]] = deque()
        self._turn = threading.Lock()
        self._turn.acquire()

    def start(self) -> None:
        """Starts the thread, which runs until `aclose`."""
        self._loop = asyncio.get_running_loop()
        self._ended = self._loop.create_future()
        self._thread.start()

    def hand(self, act: Callable[[Any], None], argument: Any) -> None:
        """Makes the loop call `act(argument)`, which must not raise; calls keep their order.

        For the thread only.
        """
        self._handed.append((act, argument))

    async def aclose(self) -> None:
        """Returns once every operation has completed.

        Start no operation afterwards: the core would abort the process.
        """
        self.queue.shutdown()
        await self._ended
        self._thread.join()

    def _run(self) -> None:
        poll, past = self.queue.poll, 0.0
        ends, nothing = cygrpc.CompletionType.queue_shutdown, cygrpc.CompletionType.queue_timeout
        while True:
            event = poll()
            while event.completion_type != nothing:
                if event.completion_type == ends:
                    self._loop.call_soon_threadsafe(self._ended.set_result, None)
                    return
                try:
                    event.tag(event)
                except Exception:  # noqa: BLE001 - a defect in one call must not end others
                    _log.exception("the event of a call failed")
                if len(self._handed) >= _MOST_HANDED:
                    break
                # The server is not down while an event, and with it a call, is kept.
                del event
                event = poll(past)
            del event
            if self._handed:
                self._loop.call_soon_threadsafe(self._take)
                self._turn.acquire()

    def _take(self) -> None:
        handed = self._handed
        while handed:
            act, argument = handed.popleft()
            act(argument)
        # Scheduled after the first steps of the tasks that these events started or woke.
        self._loop.call_soon(self._turn.release)
