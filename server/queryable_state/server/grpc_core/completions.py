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


class Completions:
    """A completion queue of the core, and the thread that waits for it.

    The tag of whatever is begun on `queue` is a function: the thread calls it with the event,
    and it must not block. `hand` takes what is the loop's to do.
    """

    def __init__(self) -> None:
        self.queue: Any = cygrpc.CompletionQueue()
        self._thread = threading.Thread(target=self._wait, name="gRPC core", daemon=True)
        self._handed: deque[tuple[Callable[[Any], None], Any]] = deque()
        self._loop_knows = False

    def start(self) -> None:
        """Waits for events from here on, until `aclose`."""
        self._loop = asyncio.get_running_loop()
        self._ended = self._loop.create_future()
        self._thread.start()

    def hand(self, act: Callable[[Any], None], argument: Any) -> None:
        """Has the loop call `act(argument)`, which must not raise, after what was handed before.

        From the thread only. What is handed until the loop gets to it costs one wake-up.
        """
        self._handed.append((act, argument))
        if not self._loop_knows:
            self._loop_knows = True
            self._loop.call_soon_threadsafe(self._take)

    async def aclose(self) -> None:
        """Returns once all that is begun has completed.

        Nothing may be begun any more: the core ends the process over it.
        """
        self.queue.shutdown()
        await self._ended
        self._thread.join()

    def _take(self) -> None:
        # Before the last look: what is handed after that wakes the loop again.
        self._loop_knows = False
        handed = self._handed
        while handed:
            act, argument = handed.popleft()
            act(argument)

    def _wait(self) -> None:
        poll, ends = self.queue.poll, cygrpc.CompletionType.queue_shutdown
        while True:
            event = poll()
            if event.completion_type == ends:
                break
            try:
                event.tag(event)
            except Exception:  # noqa: BLE001 - no other call may suffer for one
                _log.exception("a call is lost")
            # The server is not down while an event, and with it a call, is kept.
            del event
        self.hand(self._ended.set_result, None)
