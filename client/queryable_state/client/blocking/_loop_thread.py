"""An event loop on a thread of its own, fed from other threads."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any

from queryable_state.client._errors import ClientClosedError

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

_STOP_TIMEOUT_S = 5.0


class _Call:
    """One call from another thread: its outcome, and the lock its caller waits at."""

    __slots__ = ("error", "lock", "outcome", "start")

    def __init__(self, start: Callable[[], asyncio.Future[Any] | Coroutine[Any, Any, Any]]) -> None:
        self.start = start
        self.lock = threading.Lock()
        self.lock.acquire()
        self.outcome: Any = None
        self.error: BaseException | None = None

    def begin(self) -> None:
        """Starts the call, on the loop."""
        try:
            asyncio.ensure_future(self.start()).add_done_callback(self._finish)
        except BaseException as error:  # noqa: BLE001 - raised again where the caller waits
            self.fail(error)

    def fail(self, error: BaseException) -> None:
        """Ends the call."""
        self.error = error
        self.lock.release()

    def _finish(self, future: asyncio.Future[Any]) -> None:
        if future.cancelled():
            self.error = _closed_error()
        else:
            self.error = future.exception()
            if self.error is None:
                self.outcome = future.result()
        self.lock.release()


class LoopThread:
    """Runs calls of other threads on one event loop.

    What is called for while the loop is busy reaches it together, with one
    wake-up. The thread is a daemon; `stop` ends it.
    """

    def __init__(self, name: str, cleanup: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """`cleanup` runs on the loop, last."""
        self._lock = threading.Lock()
        self._calls: list[_Call] = []
        self._awake = False
        self._stopped = False
        self._cleanup = cleanup
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def call(self, start: Callable[[], asyncio.Future[Any] | Coroutine[Any, Any, Any]]) -> Any:
        """Runs `start` on the loop and waits for what it returns."""
        call = _Call(start)
        with self._lock:
            if self._stopped:
                raise _closed_error()
            self._calls.append(call)
            wake, self._awake = not self._awake, True
        if wake:
            self._loop.call_soon_threadsafe(self._drain)
        call.lock.acquire()
        if call.error is not None:
            raise call.error
        return call.outcome

    def stop(self) -> None:
        """Fails what is pending, runs the cleanup and ends the thread. Idempotent, thread-safe."""
        with self._lock:
            first, self._stopped = not self._stopped, True
        if first:
            self._loop.call_soon_threadsafe(self._loop.stop)
        # The garbage collector may call it on the thread itself.
        if threading.current_thread() is not self._thread:
            self._thread.join(_STOP_TIMEOUT_S)

    def _drain(self) -> None:
        with self._lock:
            calls, self._calls = self._calls, []
            self._awake = False
        for call in calls:
            call.begin()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
            for call in self._calls:
                call.fail(_closed_error())
            self._loop.run_until_complete(self._cleanup())
            tasks = asyncio.all_tasks(self._loop)
            for task in tasks:
                task.cancel()
            self._loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
            # Who waits learns of the end by a callback of the last turn.
            self._loop.run_until_complete(asyncio.sleep(0))
        finally:
            asyncio.set_event_loop(None)
            self._loop.close()


def _closed_error() -> ClientClosedError:
    return ClientClosedError("this client is closed: open another")
