"""Counters of the reads of one state on its owner."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field


@dataclass(eq=False, slots=True)
class StateReads:
    """Cache misses of point reads, and failures of queries, of one state."""

    cache_misses: int = 0
    """Keys of point reads that were not cached and were read from the store."""
    failed: Counter[str] = field(default_factory=Counter)
    """Queries that failed, as a whole or for some keys, by reason."""
