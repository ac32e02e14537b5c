"""What time and threads are to drivers and servers of the model."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Coroutine


_T = TypeVar("_T")

_DEADLINE_S = 30.0


class LoopThread:
    """An event loop that always runs; the test's thread waits for what it hands over."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, _T]) -> _T:
        """Waits for a coroutine."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(_DEADLINE_S)

    def close(self) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.close()


class Clock:
    """The time of drivers and servers alike; it passes only when told to."""

    def __init__(self) -> None:
        self.now_ms = 1_000_000
