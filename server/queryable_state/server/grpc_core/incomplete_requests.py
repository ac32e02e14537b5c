"""Calls whose request is not complete yet."""

from __future__ import annotations

import threading
import time
from typing import Any

import grpc

# Tolerated incomplete requests. Above it, requests older than the time below are cancelled.
_TOLERATED = 64
_LATE_S = 0.25


class IncompleteRequests:
    """Cancels requests that are not sent in time. Thread-safe.

    The core buffers incomplete requests. If there are many, the oldest are cancelled early; a
    client that sends its request at once is never affected.
    """

    def __init__(self, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._lock = threading.Lock()
        self._since_s: dict[Any, float] = {}

    def add(self, call: Any) -> None:
        """Registers a call whose request is incomplete."""
        with self._lock:
            self._since_s[call] = time.monotonic()
            crowded = len(self._since_s) > _TOLERATED
        if crowded:
            self._give_up(_LATE_S)

    def discard(self, call: Any) -> None:
        """Unregisters a call: its request is complete, or the call has ended."""
        with self._lock:
            self._since_s.pop(call, None)

    def cancel_old(self) -> int:
        """Cancels the requests that were not sent in time; returns how many."""
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
