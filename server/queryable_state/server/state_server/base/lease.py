"""The lease of a state server: its time-limited right to act as owner."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from queryable_state.server.lease_clock import lease_s
from queryable_state.wire.errors import PlacementError, Reason

if TYPE_CHECKING:
    from collections.abc import Callable

_RETRY_AFTER_MS = 200


class Lease:
    """The newest lease that the coordinator granted, on `lease_clock`. Thread-safe.

    The lease is counted from before the request was sent, so it ends on the server before it
    ends on the coordinator. An older answer never shortens it.
    """

    def __init__(self, *, clock: Callable[[], float] = lease_s) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._given_up_s = float("-inf")
        self._end_s = float("-inf")
        self.duration_s = 0.0
        self.placement_version = 0

    def now_s(self) -> float:
        """The time of the lease clock, in seconds; read it before sending a renewal."""
        return self._clock()

    def renew(self, asked_at_s: float, duration_ms: int, placement_version: int) -> None:
        """Applies the answer to a renewal that was sent at `asked_at_s`.

        Ignores renewals that were sent before `end`.
        """
        with self._lock:
            if asked_at_s < self._given_up_s:
                return
            self.duration_s = duration_ms / 1000
            self._end_s = max(self._end_s, asked_at_s + self.duration_s)
            self.placement_version = max(self.placement_version, placement_version)

    def end(self) -> None:
        """Gives up the lease."""
        with self._lock:
            self._given_up_s = self._clock()
            self._end_s = float("-inf")

    @property
    def remaining_s(self) -> float:
        """Seconds until the lease ends; zero or negative once it has ended."""
        return self._end_s - self._clock()

    def holds(self) -> bool:
        """True if this server may act as owner now."""
        return self._clock() < self._end_s

    def check(self) -> None:
        """Raises `PlacementError` (LEASE_EXPIRED) if the lease has ended."""
        if not self.holds():
            raise self.expired()

    def expired(self) -> PlacementError:
        """Returns the refusal of a server whose lease has ended."""
        return PlacementError(
            "this state server has not reached the coordinator for longer than its lease, and "
            "may no longer own its state: locate the owner again",
            reason=Reason.LEASE_EXPIRED,
            retry_after_ms=_RETRY_AFTER_MS,
            placement_version=self.placement_version,
        )
