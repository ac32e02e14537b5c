"""The scans under way."""

from __future__ import annotations

from queryable_state.wire.errors import Reason, RetryLaterError

# Each keeps a version from going, whatever is committed meanwhile.
_MOST_SCANS = 64


class OpenScans:
    """How many scans of one server have a version pinned."""

    def __init__(self) -> None:
        self.open = 0

    def enter(self, server_id: str) -> None:
        """OVERLOADED where there are as many as there may be."""
        if self.open >= _MOST_SCANS:
            raise RetryLaterError(
                f"{self.open} scans are open on server {server_id}, as many as it takes: "
                "scan again once one has ended",
                reason=Reason.OVERLOADED,
                retry_after_ms=200,
            )
        self.open += 1

    def leave(self) -> None:
        """One has ended."""
        self.open -= 1
