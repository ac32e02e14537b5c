"""The right to act as owner, for a while."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from queryable_state.server.lease_clock import lease_s
from queryable_state.wire.errors import PlacementError, Reason

if TYPE_CHECKING:
    from collections.abc import Callable

_RETRY_AFTER_MS = 200


class Lease:
    """What the coordinator granted last, on the clock of leases. Thread-safe.

    The end is counted from before the request was sent, so it comes before the end the
    coordinator counts from its answer. Ends are never moved back by an older answer.
    """

    def __init__(self, *, clock: Callable[[], float] = lease_s) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._given_up_s = float("-inf")
        self._end_s = float("-inf")
        self.duration_s = 0.0
        self.placement_version = 0

    def now_s(self) -> float:
        """The clock of the lease; taken before a renewal is asked for."""
        return self._clock()

    def renew(self, asked_at_s: float, duration_ms: int, placement_version: int) -> None:
        """Takes the answer to a renewal asked for at `asked_at_s`.

        One asked for before the lease was given up comes too late.
        """
        with self._lock:
            if asked_at_s < self._given_up_s:
                return
            self.duration_s = duration_ms / 1000
            self._end_s = max(self._end_s, asked_at_s + self.duration_s)
            self.placement_version = max(self.placement_version, placement_version)

    def end(self) -> None:
        """Gives the lease up: from here on it does not hold."""
        with self._lock:
            self._given_up_s = self._clock()
            self._end_s = float("-inf")

    @property
    def remaining_s(self) -> float:
        """Seconds until the end; not positive once it has passed."""
        return self._end_s - self._clock()

    def holds(self) -> bool:
        """Whether this server may act as owner now."""
        return self._clock() < self._end_s

    def check(self) -> None:
        """Raises LEASE_EXPIRED where the lease does not hold."""
        if not self.holds():
            raise self.expired()

    def expired(self) -> PlacementError:
        """The refusal of a server without a lease."""
        return PlacementError(
            "this state server has not reached the coordinator for longer than its lease, and "
            "may no longer own what it holds: locate the owner anew",
            reason=Reason.LEASE_EXPIRED,
            retry_after_ms=_RETRY_AFTER_MS,
            placement_version=self.placement_version,
        )
