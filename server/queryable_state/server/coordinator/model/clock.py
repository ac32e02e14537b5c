"""The times a coordinator goes by, where it is given no others."""

from __future__ import annotations

import time

from queryable_state.server.lease_clock import lease_ns


def lease_ms() -> int:
    """Milliseconds of the clock of leases."""
    return lease_ns() // 1_000_000


def wall_ms() -> int:
    """Milliseconds since the epoch."""
    return time.time_ns() // 1_000_000
