"""The times a coordinator goes by, where it is given no others."""

from __future__ import annotations

import time


def monotonic_ms() -> int:
    """Milliseconds of a clock that only goes forward."""
    return time.monotonic_ns() // 1_000_000


def wall_ms() -> int:
    """Milliseconds since the epoch."""
    return time.time_ns() // 1_000_000
