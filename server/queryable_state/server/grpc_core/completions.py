"""What gRPC's core has done, brought to the event loop."""

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


# A bunch is done before the thread looks for the next: it bounds what others wait for the loop.
_MOST_HANDED = 64


class Completions:
    """A completion queue of the core, and the thread that waits for it.

    The tag of whatever is begun on `queue` is a function: the thread calls it with the event,
    and it must not block. `hand` takes what is the loop's to do.

    Thread and loop take turns: the thread gathers all that has happened, the loop does it, and
    only then the thread looks again. They need the same interpreter lock, and passing that to
    and fro for every event costs more than the events.
    """

    def __init__(self) -> None:
        self.queue: Any = cygrpc.CompletionQueue()
        self._thread = threading.Thread(target=self._run, name="gRPC core", daemon=True)
        self._handed: deque[tuple[Callable[[Any], None], Any]] = deque()
        self._turn = threading.Lock()
        self._turn.acquire()

    def start(self) -> None:
        """Waits for events from here on, until `aclose`."""
        self._loop = asyncio.get_running_loop()
        self._ended = self._loop.create_future()
        self._thread.start()

    def hand(self, act: Callable[[Any], None], argument: Any) -> None:
        """Has the loop call `act(argument)`, which must not raise, after what was handed before.

        From the thread only.
        """
        self._handed.append((act, argument))

    async def aclose(self) -> None:
        """Returns once all that is begun has completed.

        Nothing may be begun any more: the core ends the process over it.
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
                except Exception:  # noqa: BLE001 - no other call may suffer for one
                    _log.exception("a call is lost")
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
        # Behind the first steps of the tasks that this has begun or woken.
        self._loop.call_soon(self._turn.release)
