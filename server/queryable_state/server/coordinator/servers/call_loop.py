"""An event loop on a thread of its own, for calls of threads that wait for their outcome."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any, TypeVar

from queryable_state.wire.errors import RetryLaterError

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

_T = TypeVar("_T")


class CallLoop:
    """Started by the first call; thread-safe. Calls to a thousand servers need no more threads."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._closed = False

    def run(self, call: Callable[[], Coroutine[Any, Any, _T]]) -> _T:
        """Runs `call` on the loop, waits, and gives what it gives or raises.

        RetryLaterError once the loop is closed.
        """
        with self._lock:
            outcome = asyncio.run_coroutine_threadsafe(call(), self._running())
        return outcome.result()

    def soon(self, call: Callable[[], object]) -> None:
        """Runs `call` on the loop, without waiting; nothing once it is closed."""
        with self._lock:
            if self._loop is not None:
                self._loop.call_soon_threadsafe(call)

    def close(self, last: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Runs `last` on the loop and then ends it; may be repeated.

        `last` has what still waits end.
        """
        with self._lock:
            loop, self._loop, self._closed = self._loop, None, True
        if loop is not None and self._thread is not None:
            asyncio.run_coroutine_threadsafe(self._end(last), loop).result()
            loop.call_soon_threadsafe(loop.stop)
            self._thread.join()
            loop.close()

    async def _end(self, last: Callable[[], Coroutine[Any, Any, None]]) -> None:
        own = asyncio.current_task()
        await last()
        await asyncio.gather(
            *(task for task in asyncio.all_tasks() if task is not own), return_exceptions=True
        )

    def _running(self) -> asyncio.AbstractEventLoop:
        if self._closed:
            raise RetryLaterError("the coordinator is closed, and calls no server any more")
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            self._thread = threading.Thread(
                target=self._loop.run_forever, name=self._name, daemon=True
            )
            self._thread.start()
        return self._loop
