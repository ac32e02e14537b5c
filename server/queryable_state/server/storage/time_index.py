"""The time-ordered index of a timer state: the same timers, with index keys in place of store keys.

A base keeps the index of state `s` as the records of a hidden state with the id `index_id(s)`. The
index holds exactly the index keys of the state's records, without values. The base derives it and
writes both in one step, so changes, snapshots and changelogs name only records.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from queryable_state.server.storage.overlay import StateOverlay
from queryable_state.wire.keys.timer_keys import (
    ELEMENT_BYTES,
    Clock,
    due_end,
    store_key_of,
    timer_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

Bounds = tuple[bytes, bytes]


def index_id(state_id: int) -> int:
    """The id under which a base keeps the index of a state; negative, as no state's id is."""
    return ~state_id


def index_changes(changes: Mapping[bytes, bytes | None]) -> dict[bytes, bytes | None]:
    """The changes of a timer state as changes of its index."""
    # As `index_key_of`, without a call for each of many keys.
    return {key[-ELEMENT_BYTES:] + key[:-ELEMENT_BYTES]: value for key, value in changes.items()}


def clock_bounds(clock: Clock) -> Bounds:
    """The first index key of a clock, and the first one after all of them."""
    return bytes((clock,)), bytes((clock + 1,))


def due_bounds(
    processing_time_ms: int, event_time_ms: int | None, after: bytes
) -> Iterator[Bounds]:
    """The ranges of index keys that are due and follow `after`, in order; the end is exclusive."""
    for clock, until_ms in (
        (Clock.PROCESSING_TIME, processing_time_ms),
        (Clock.EVENT_TIME, event_time_ms),
    ):
        if until_ms is not None:
            start, end = max(clock_bounds(clock)[0], after), due_end(clock, until_ms)
            if start < end:
                yield start, end


class FirstTimers(NamedTuple):
    """The index key of the first pending timer of each clock; None: it has none."""

    processing_time: bytes | None = None
    event_time: bytes | None = None


class NextTimers(NamedTuple):
    """The time of the earliest pending timer of each clock; None: it has none."""

    processing_time_ms: int | None = None
    event_time_ms: int | None = None

    @classmethod
    def of(cls, first: FirstTimers) -> NextTimers:
        """The times of these timers."""
        return cls(*(None if key is None else timer_of(key[:ELEMENT_BYTES])[1] for key in first))


class TimerOverlay(StateOverlay):
    """The changes of one timer state in one version, by index key."""

    __slots__ = ("first",)

    def __init__(self, overlay: StateOverlay) -> None:
        super().__init__(index_changes(overlay.records), overlay.cleared)
        self.first: FirstTimers | None = None
        """No timer of the version is before these; None: not known."""

    def hides(self, key: bytes) -> bool:
        return super().hides(store_key_of(key))


def by_time(overlay: StateOverlay) -> TimerOverlay:
    """The overlay by index key, made at its first use and kept."""
    timers = overlay.by_time
    if not isinstance(timers, TimerOverlay):
        timers = overlay.by_time = TimerOverlay(overlay)
    return timers
