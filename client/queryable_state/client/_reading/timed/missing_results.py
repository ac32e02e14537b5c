"""Results of lookups for which a key without windows or timers is a result, not an error."""

from __future__ import annotations

from typing import TYPE_CHECKING

from queryable_state.client._reading.pending_results import FutureResults
from queryable_state.client._reading.timed.key_windows import KeyWindows
from queryable_state.client._reading.timed.pending_timers import PendingTimers

if TYPE_CHECKING:
    from collections.abc import Callable

    from queryable_state.client._reading.states import DecodeContext


class WindowsResults(FutureResults):
    """One future of `KeyWindows` for each key; empty for a missing key."""

    __slots__ = ()

    def missing(self, position: int, context: DecodeContext, text: Callable[[], str]) -> None:
        self.found(position, KeyWindows(None, context))


class TimersResults(FutureResults):
    """One future of `PendingTimers` for each key; empty for a missing key."""

    __slots__ = ()

    def missing(self, position: int, context: DecodeContext, text: Callable[[], str]) -> None:
        self.found(position, PendingTimers(b"", context))
