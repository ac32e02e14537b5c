"""A page of the due timers of a task."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from queryable_state.wire.keys.timer_keys import Clock


class DueTimer(NamedTuple):
    """A timer that fires in this batch."""

    clock: Clock
    timestamp_ms: int
    wire_key: bytes
    """Key group and encoded key."""
    namespace: bytes


class DuePage:
    """Timers that fire one after another; their states can be fetched together.

    A timer that fires may register and delete timers. `timers` has those known before the first
    one fires; `fire` also yields those registered since, in their place, and leaves out those
    deleted since. All keys of the timers that `fire` yields are in `timers`, if a timer that fires
    registers timers of its own key only.
    """

    def __init__(self, timers: Sequence[DueTimer], fire: Callable[[], Iterator[DueTimer]]) -> None:
        self.timers = timers
        """In firing order."""
        self.fire = fire
        """Iterates over the timers as they fire, once; a timer yielded is no longer pending."""
