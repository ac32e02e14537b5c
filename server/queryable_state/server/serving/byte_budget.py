"""Byte budget: a bound on the memory that one process holds for all clients."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from queryable_state.server.serving.large_request_queue import LargeRequestQueue

if TYPE_CHECKING:
    from collections.abc import Callable

SHARE_BYTES = 64 * 1024
"""Bytes that each connection may hold even if the budget is full, so that small requests pass."""


# Unread answers of one client. Above this limit the server stops reading from the client, so that
# a client that does not read fills its own buffers and not this process.
_MOST_UNSENT_BYTES = 8 * 1024 * 1024


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


class ConnectionMemory:
    """Bytes of incomplete and unanswered requests, and of unread answers, of one connection.

    Counted against the budgets of its process.
    """

    def __init__(self, budgets: ClientBudgets) -> None:
        self._budgets = budgets
        self._held_bytes = 0
        self._unsent_bytes = 0

    def count(self, held_bytes: int, unsent_bytes: int) -> None:
        """Sets the bytes currently held, of requests and of answers."""
        requests, answers = self._budgets.requests, self._budgets.answers
        before, self._held_bytes = self._held_bytes, held_bytes
        unsent_before, self._unsent_bytes = self._unsent_bytes, unsent_bytes
        if held_bytes > before:
            requests.take(held_bytes - before)
        elif held_bytes < before:
            requests.give(before - held_bytes)
        if unsent_bytes > unsent_before:
            answers.take(unsent_bytes - unsent_before)
        elif unsent_bytes < unsent_before:
            answers.give(unsent_before - unsent_bytes)

    def has_room(self, held_bytes: int, wake: Callable[[], object]) -> bool:
        """True if more requests may be read; otherwise `wake` is called once there is room."""
        if self._budgets.requests.may_hold(held_bytes):
            return True
        self._budgets.requests.wait(wake)
        return False

    def may_wait(self, unsent_bytes: int) -> bool:
        """True if so many bytes of answers may wait for the client to read them."""
        return unsent_bytes <= _MOST_UNSENT_BYTES and self._budgets.answers.may_hold(unsent_bytes)

    def release(self, wake: Callable[[], object]) -> None:
        """Frees everything and cancels `wake`."""
        self._budgets.requests.forget(wake)
        self.count(0, 0)
