"""How many bytes one process holds for its clients, and which of them may have more."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from queryable_state.server.serving.large_request_queue import LargeRequestQueue

if TYPE_CHECKING:
    from collections.abc import Callable

SHARE_BYTES = 64 * 1024
"""What each connection may hold however full the budget is: small requests always get through."""


class ByteBudget:
    """Counts bytes of all connections together. Thread-safe.

    A connection asks `may_hold` before it takes more, and is refused, or waits, where it has its
    share already and the budget is used up: whoever holds much cannot keep others from little.
    """

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._used_bytes = 0
        self._lock = threading.Lock()
        self._waiting: set[Callable[[], object]] = set()

    @property
    def used_bytes(self) -> int:
        """Bytes held now."""
        return self._used_bytes

    def may_hold(self, held_bytes: int) -> bool:
        """Whether a connection that will hold so many bytes of its own may take them."""
        return held_bytes <= SHARE_BYTES or self._used_bytes < self._most_bytes

    def take(self, size_bytes: int) -> None:
        """Counts bytes in."""
        with self._lock:
            self._used_bytes += size_bytes

    def give(self, size_bytes: int) -> None:
        """Counts bytes out; calls those who wait once there is room, on this thread."""
        waiting: tuple[Callable[[], object], ...] = ()
        with self._lock:
            self._used_bytes -= size_bytes
            if self._waiting and self._used_bytes < self._most_bytes:
                waiting = tuple(self._waiting)
                self._waiting.clear()
        for wake in waiting:
            wake()

    def wait(self, wake: Callable[[], object]) -> None:
        """Has `wake` called once, when there is room again."""
        with self._lock:
            self._waiting.add(wake)

    def forget(self, wake: Callable[[], object]) -> None:
        """`wake` need not be called any more."""
        with self._lock:
            self._waiting.discard(wake)


class ClientBudgets:
    """What the clients of one process may spend, of all its public ports together."""

    def __init__(self, most_bytes: int) -> None:
        self.requests = ByteBudget(most_bytes)
        """Requests that are incomplete, or not answered."""
        self.answers = ByteBudget(most_bytes)
        """Answers that clients have not taken."""
        self.large_requests = LargeRequestQueue()
        """On the event loop."""
