"""Clock of leases.

It is monotonic and on Linux runs while the machine is suspended, so that a lease taken before a
suspension has expired after it. Other systems use their monotonic clock.
"""

from __future__ import annotations

import time

_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def lease_ns() -> int:
    """Nanoseconds since a fixed moment, the same for all processes of a machine."""
    return time.clock_gettime_ns(_CLOCK)


def lease_ms() -> int:
    """The same in milliseconds."""
    return lease_ns() // 1_000_000


def lease_s() -> float:
    """Same as `lease_ns`, in seconds."""
    return time.clock_gettime(_CLOCK)
