"""Byte budget: a bound on the memory that one process holds for all clients."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from queryable_state.server.serving.large_request_queue import LargeRequestQueue

if TYPE_CHECKING:
    from collections.abc import Callable

SHARE_BYTES = 64 * 1024
"""Bytes that each connection may hold even if the budget is full, so that small requests pass."""


class ByteBudget:
    """Counts the bytes of all connections together. Thread-safe.

    A connection calls `may_hold` before it takes more. If the budget is full, a connection
    beyond its share is refused or waits; others are not affected.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._used_bytes = 0
        self._lock = threading.Lock()
        self.refusals = 0
        """Times that a connection might not hold more."""
        self._waiting: set[Callable[[], object]] = set()

    @property
    def used_bytes(self) -> int:
        """Bytes that connections hold now."""
        return self._used_bytes

    def may_hold(self, held_bytes: int) -> bool:
        """True if a connection may hold this many bytes in total."""
        if held_bytes <= SHARE_BYTES or self._used_bytes < self._max_bytes:
            return True
        self.refusals += 1
        return False

    def take(self, size_bytes: int) -> None:
        """Adds bytes."""
        with self._lock:
            self._used_bytes += size_bytes

    def give(self, size_bytes: int) -> None:
        """Releases bytes; calls the waiting callbacks on this thread once there is room."""
        waiting: tuple[Callable[[], object], ...] = ()
        with self._lock:
            self._used_bytes -= size_bytes
            if self._waiting and self._used_bytes < self._max_bytes:
                waiting = tuple(self._waiting)
                self._waiting.clear()
        for wake in waiting:
            wake()

    def wait(self, wake: Callable[[], object]) -> None:
        """Calls `wake` once, when there is room again."""
        with self._lock:
            self._waiting.add(wake)

    def forget(self, wake: Callable[[], object]) -> None:
        """Cancels a `wait`."""
        with self._lock:
            self._waiting.discard(wake)


class ClientBudgets:
    """The byte budgets of one process, over all of its public ports."""

    def __init__(self, max_bytes: int) -> None:
        self.requests = ByteBudget(max_bytes)
        """Incomplete and unanswered requests."""
        self.answers = ByteBudget(max_bytes)
        """Answers that clients have not read."""
        self.large_requests = LargeRequestQueue()
        """For the event loop only."""
