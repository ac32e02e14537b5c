"""The clock of leases.

It only goes forward, and goes on while the machine is suspended: a lease of before a suspension
has ended after it. Only Linux has such a clock; elsewhere it is the plain monotonic one.
"""

from __future__ import annotations

import time

_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def lease_ns() -> int:
    """Nanoseconds since some moment, the same for all processes of a machine."""
    return time.clock_gettime_ns(_CLOCK)


def lease_ms() -> int:
    """The same in milliseconds."""
    return lease_ns() // 1_000_000


def lease_s() -> float:
    """The same in seconds."""
    return time.clock_gettime(_CLOCK)
