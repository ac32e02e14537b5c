"""Event loop on a background thread, called from other threads."""

from __future__ import annotations

import asyncio
import os
import threading
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    Start = Callable[[], asyncio.Future[Any] | Coroutine[Any, Any, Any]]

_T = TypeVar("_T")

_STOP_TIMEOUT_S = 5.0


class _Call:
    """Call from another thread: its outcome, and the lock on which its caller waits."""

    __slots__ = ("error", "lock", "on_cancelled", "outcome", "start")

    def __init__(self, start: Start, on_cancelled: Callable[[], Exception]) -> None:
        self.start = start
        self.on_cancelled = on_cancelled
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
            self.error = self.on_cancelled()
        else:
            self.error = future.exception()
            if self.error is None:
                self.outcome = future.result()
        self.lock.release()


class LoopThread:
    """Executor of calls from other threads on one event loop. Thread-safe.

    The first call starts the thread, a daemon; `stop` ends it. Calls made while the loop is busy
    reach it together, with one wake-up.
    """

    def __init__(
        self,
        name: str,
        *,
        cleanup: Callable[[], Coroutine[Any, Any, None]] | None = None,
        stopped_error: Callable[[], Exception] = lambda: RuntimeError("the loop has stopped"),
        forked_error: Callable[[], Exception] = lambda: RuntimeError("forked since its first call"),
    ) -> None:
        """`cleanup` runs last on the loop; it does not run if no call was made.

        `stopped_error` returns the error of calls that are pending at `stop` or made after it,
        `forked_error` that of calls in a process that was forked after the first call.
        """
        self._name = name
        self._cleanup = cleanup
        self._stopped_error = stopped_error
        self._forked_error = forked_error
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._calls: list[_Call] = []
        self._awake = False
        self._stopped = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def call(self, start: Start, *, timeout_s: float | None = None) -> Any:
        """Runs `start` on the loop and waits for what it returns.

        Raises `TimeoutError` after `timeout_s`; the call goes on.
        """
        # Before the lock, which a thread of the parent may have held at the fork.
        if self._is_forked():
            raise self._forked_error()
        call = _Call(start, self._stopped_error)
        with self._lock:
            if self._stopped:
                raise self._stopped_error()
            loop = self._loop or self._started()
            self._calls.append(call)
            wake, self._awake = not self._awake, True
        if wake:
            loop.call_soon_threadsafe(self._drain)
        if not call.lock.acquire(timeout=-1 if timeout_s is None else timeout_s):
            raise TimeoutError(f"{self._name}: no result within {timeout_s:g} s")
        if call.error is not None:
            raise call.error
        return call.outcome

    def run(self, work: Coroutine[Any, Any, _T], *, timeout_s: float | None = None) -> _T:
        """Runs a coroutine on the loop and waits for its result, as `call` does."""
        result: _T = self.call(lambda: work, timeout_s=timeout_s)
        return result

    def call_soon(self, act: Callable[[], object]) -> None:
        """Runs `act` on the loop without waiting; does nothing unless the loop runs."""
        if self._is_forked():
            return
        with self._lock:
            if self._loop is not None and not self._stopped:
                self._loop.call_soon_threadsafe(act)

    def stop(self) -> None:
        """Fails pending calls, runs the cleanup and ends the thread. Idempotent.

        Does nothing in a forked process: the loop is its parent's.
        """
        if self._is_forked():
            return
        with self._lock:
            first, self._stopped = not self._stopped, True
            loop, thread = self._loop, self._thread
        if loop is None or thread is None:
            return
        if first:
            loop.call_soon_threadsafe(loop.stop)
        # The garbage collector may call this on the thread itself.
        if threading.current_thread() is not thread:
            thread.join(_STOP_TIMEOUT_S)

    def _is_forked(self) -> bool:
        return self._loop is not None and self._pid != os.getpid()

    def _started(self) -> asyncio.AbstractEventLoop:
        loop, self._pid = asyncio.new_event_loop(), os.getpid()
        self._loop = loop
        self._thread = threading.Thread(
            target=self._run, args=(loop,), name=self._name, daemon=True
        )
        self._thread.start()
        return loop

    def _drain(self) -> None:
        with self._lock:
            calls, self._calls = self._calls, []
            self._awake = False
        for call in calls:
            call.begin()

    def _run(self, loop: asyncio.AbstractEventLoop) -> None:
        asyncio.set_event_loop(loop)
        try:
            loop.run_forever()
            for call in self._calls:
                call.fail(self._stopped_error())
            if self._cleanup is not None:
                loop.run_until_complete(self._cleanup())
            tasks = asyncio.all_tasks(loop)
            for task in tasks:
                task.cancel()
            loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
            # A generator that is collected later would call the closed loop.
            loop.run_until_complete(loop.shutdown_asyncgens())
            loop.run_until_complete(loop.shutdown_default_executor())
            # The last turn runs the callbacks that notify callers.
            loop.run_until_complete(asyncio.sleep(0))
        finally:
            asyncio.set_event_loop(None)
            loop.close()
