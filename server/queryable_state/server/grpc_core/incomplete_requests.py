"""The calls whose only request has not arrived as a whole."""

from __future__ import annotations

import threading
import time
from typing import Any

import grpc

# So many are let be; of more, those that are late by the time below are given up.
_LET_BE = 64
_LATE_S = 0.25


class IncompleteRequests:
    """Gives up requests that are not sent in time. Thread-safe.

    The core keeps what has arrived of each. Where there are many, the oldest have to go, and soon:
    a client that sends its request at once is never among them.
    """

    def __init__(self, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._lock = threading.Lock()
        self._since_s: dict[Any, float] = {}

    def add(self, call: Any) -> None:
        """Waits for the request of one of the core's calls."""
        with self._lock:
            self._since_s[call] = time.monotonic()
            crowded = len(self._since_s) > _LET_BE
        if crowded:
            self._give_up(_LATE_S)

    def discard(self, call: Any) -> None:
        """The request is there, or will never be."""
        with self._lock:
            self._since_s.pop(call, None)

    def cancel_old(self) -> int:
        """Gives up the requests that were not sent in time; returns how many."""
        return self._give_up(self._timeout_s)

    def _give_up(self, age_s: float) -> int:
        oldest_s = time.monotonic() - age_s
        with self._lock:
            old = [call for call, since_s in self._since_s.items() if since_s < oldest_s]
            for call in old:
                del self._since_s[call]
        for call in old:
            call.cancel(
                grpc.StatusCode.RESOURCE_EXHAUSTED.value[0], "the request was not sent in time"
            )
        return len(old)
