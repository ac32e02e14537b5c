"""What a loop asks for."""

from __future__ import annotations

from enum import StrEnum


class Question(StrEnum):
    """What a loop asks for."""

    HITS = "hits"
    """One key that is there."""
    MISSES = "misses"
    """One key that is not there."""
    HUNDREDS = "hundreds"
    """`BATCH_KEYS` keys in one question."""
