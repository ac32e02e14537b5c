"""Answers that gRPC's core buffers because their clients have not read them yet."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import grpc

from queryable_state.wire.errors import Reason, RetryLaterError
from queryable_state.wire.status import details_of, status_of, trailing_metadata

if TYPE_CHECKING:
    from queryable_state.server.serving.byte_budget import ByteBudget

# Generous, because the core does not report the progress of a large answer.
_TIMEOUT_S = 60.0

# Limit of one connection, whose client reads nothing or requests more than it reads.
_MOST_OF_ONE_BYTES = 8 * 1024 * 1024

_takes_too_little = RetryLaterError(
    "answers wait that the clients of this server have not read: read them before asking for more",
    reason=Reason.OVERLOADED,
    retry_after_ms=100,
)
TAKES_TOO_LITTLE = (
    status_of(_takes_too_little),
    details_of(_takes_too_little),
    trailing_metadata(_takes_too_little),
)
"""Status of a call whose client does not read its answers."""


@dataclass(eq=False)
class _Connection:
    held_bytes: int = 0
    calls: dict[object, tuple[Any, float]] = field(default_factory=dict)
    """The unsent answers of one connection: their calls, and when they were sent."""


class UnsentAnswers:
    """Counts unread answers by connection. Thread-safe: the core sends on threads of its own.

    The core buffers unread answers as long as their connection lasts.
    """

    def __init__(self, budget: ByteBudget) -> None:
        self._budget = budget
        self._lock = threading.Lock()
        self._connections: dict[str, _Connection] = {}

    def may_add(self, peer: str, size_bytes: int) -> bool:
        """True if a connection may be sent so many more bytes.

        A single answer may exceed the limit.
        """
        connection = self._connections.get(peer)
        held_bytes = 0 if connection is None else connection.held_bytes
        if held_bytes > _MOST_OF_ONE_BYTES:
            return False
        return self._budget.may_hold(held_bytes + size_bytes)

    def add(self, peer: str, call: Any, size_bytes: int) -> object:
        """Counts an answer; returns the entry that `discard` needs."""
        entry = object()
        with self._lock:
            connection = self._connections.setdefault(peer, _Connection())
            connection.held_bytes += size_bytes
            connection.calls[entry] = (call, time.monotonic())
        self._budget.take(size_bytes)
        return entry

    def discard(self, peer: str, entry: object, size_bytes: int) -> None:
        """Uncounts an answer that is sent or cancelled."""
        with self._lock:
            connection = self._connections[peer]
            del connection.calls[entry]
            connection.held_bytes -= size_bytes
            if not connection.calls:
                del self._connections[peer]
        self._budget.give(size_bytes)

    def cancel_old(self) -> int:
        """Cancels the calls whose answers were not read in time; returns how many."""
        oldest_s = time.monotonic() - _TIMEOUT_S
        with self._lock:
            old = [
                call
                for connection in self._connections.values()
                for call, since_s in connection.calls.values()
                if since_s < oldest_s
            ]
        for call in old:
            call.cancel(grpc.StatusCode.RESOURCE_EXHAUSTED.value[0], "the answer was not read")
        return len(old)
