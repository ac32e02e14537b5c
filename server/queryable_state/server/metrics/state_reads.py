"""Counters of the reads of one state on its owner."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field


@dataclass(eq=False, slots=True)
class StateReads:
    """Keys, cache misses and failures of the point reads and queries of one state."""

    cached_keys: int = 0
    """Keys that point reads looked up in the cache of records."""
    cache_misses: int = 0
    """Those among them that were read from the store."""
    failed: Counter[str] = field(default_factory=Counter)
    """Queries that failed, as a whole or for some keys, by reason."""
