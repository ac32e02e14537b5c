"""Counters of a proxy."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from queryable_state.v1 import errors_pb2

_REASONS = {number: name for name, number in errors_pb2.Reason.items()}


@dataclass(eq=False, slots=True)
class ProxyCounts:
    """Routes, retries and failures of the queries of one proxy. For the event loop."""

    local: int = 0
    """Queries that this process answered at once from its own state."""
    relayed: int = 0
    """Queries that one owner got unchanged."""
    split: int = 0
    """Queries that were sent in parts, to several owners or again."""
    retries: int = 0
    """Times that keys were refused by an owner and tried again, or failed at the deadline."""
    failed: Counter[str] = field(default_factory=Counter)
    """Times that keys failed in the proxy, by reason."""

    def fail(self, error: errors_pb2.Error) -> None:
        """Counts keys whose look-up failed."""
        self.failed[_REASONS.get(error.reason, "UNKNOWN")] += 1
