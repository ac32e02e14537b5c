"""Clock of leases.

It is monotonic and on Linux runs while the machine is suspended, so that a lease taken before a
suspension has expired after it. Other systems use their monotonic clock.
"""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def lease_ns() -> int:
    """Nanoseconds since a fixed moment, the same for all processes of a machine."""
    return time.clock_gettime_ns(_CLOCK)


def lease_ms() -> int:
    """The same in milliseconds."""
    return lease_ns() // 1_000_000


lease_s: Callable[[], float] = partial(time.clock_gettime, _CLOCK)
"""Same as `lease_ns`, in seconds."""
