"""Pending timers of one key."""

from __future__ import annotations

from typing import TYPE_CHECKING

from queryable_state.client._reading.states import NOT_DECODED, RecordsState, takes_no_key

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from queryable_state.wire.keys.pending_timers import PendingTimer


class PendingTimers(RecordsState):
    """The registered timers of one key that have not fired, in the order in which they fire.

    Timers of processing time come first, as they fire first in a batch.
    """

    __slots__ = ()
    kind = "timer state"

    def get(self, key: Any = None) -> list[PendingTimer]:
        """A copy of the timers."""
        takes_no_key(self, key)
        return list(self._timers())

    def is_empty(self) -> bool:
        """True if there is no timer."""
        return not self._timers()

    def __iter__(self) -> Iterator[PendingTimer]:
        return iter(self._timers())

    def __getitem__(self, position: int) -> PendingTimer:
        return self._timers()[position]

    def __len__(self) -> int:
        return len(self._timers())

    def _timers(self) -> list[PendingTimer]:
        timers: list[PendingTimer] = (
            self._decode() if self._decoded is NOT_DECODED else self._decoded
        )
        return timers
