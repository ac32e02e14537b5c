"""Timers of one key, as records of a TIMER state have them: `namespace | clock | timestamp`."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from queryable_state.wire.keys.store_keys import VOID_NAMESPACE, namespace_end
from queryable_state.wire.keys.time_window import TimeWindow
from queryable_state.wire.keys.timer_keys import Clock, timer_element, timer_of

if TYPE_CHECKING:
    from collections.abc import Iterable


class PendingTimer(NamedTuple):
    """A registered timer that has not fired."""

    clock: Clock
    """PROCESSING_TIME or EVENT_TIME."""

    timestamp_ms: int
    """Milliseconds since the epoch; the timer is due once its clock is there."""

    window: TimeWindow | None = None
    """The window it belongs to; None: the key as a whole."""

    @property
    def element(self) -> bytes:
        """The part of its store key after the key."""
        namespace = VOID_NAMESPACE if self.window is None else self.window.namespace
        return namespace + timer_element(self.clock, self.timestamp_ms)


def decode_timers(elements: Iterable[bytes]) -> list[PendingTimer]:
    """The timers of one key in the order in which they fire.

    Raises `CorruptDataError` for other bytes.
    """
    found = []
    for element in elements:
        end = namespace_end(element, 0)
        namespace = element[:end]
        clock, timestamp_ms = timer_of(element[end:])
        window = None if namespace == VOID_NAMESPACE else TimeWindow.of_namespace(namespace)
        found.append((clock, timestamp_ms, namespace, PendingTimer(clock, timestamp_ms, window)))
    return [timer for *_, timer in sorted(found, key=lambda each: each[:3])]


def timers_jsonable(timers: Iterable[PendingTimer]) -> list[dict[str, object]]:
    """Timers for `json.dumps`."""
    return [
        {
            "clock": timer.clock.name,
            "timestamp_ms": timer.timestamp_ms,
            "window": None if timer.window is None else timer.window.jsonable(),
        }
        for timer in timers
    ]
