"""What the job windows has stored."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from queryable_state.client import Clock, PendingTimer, TimeWindow
from queryable_state.server.testing.changes import Windows

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

KEYS = [f"sensor_{number}" for number in range(12)]
MINUTES = [TimeWindow(start, start + 60_000) for start in range(0, 300_000, 60_000)]
FIRST, LAST = MINUTES[0], MINUTES[-1]

MAXIMA = {
    key: {window: number * 1000 + at for at, window in enumerate(MINUTES[number % 3 :])}
    for number, key in enumerate(KEYS)
}
EVENTS = {"sensor_1": {FIRST: ["a", "b"], LAST: ["c"]}}
COUNTS = {"sensor_1": {FIRST: {"x": 1, "y": 2}, LAST: {"x": 3}}}

# In the order in which they fire.
OWN_TIMERS = [
    PendingTimer(Clock.PROCESSING_TIME, 5_000),
    PendingTimer(Clock.EVENT_TIME, 1_000),
    PendingTimer(Clock.EVENT_TIME, 59_999, FIRST),
]
TIMERS = {"sensor_1": OWN_TIMERS, "sensor_2": OWN_TIMERS[:1]}


def timers(by_key: Mapping[str, Iterable[PendingTimer]]) -> dict[str, Windows]:
    """The changes of a batch that registers these timers."""
    return {key: registered(some) for key, some in by_key.items()}


def registered(some: Iterable[PendingTimer]) -> Windows:
    """The changes of one key that register these timers."""
    by_window: dict[TimeWindow | None, dict[tuple[Clock, int], bool]] = {}
    for timer in some:
        by_window.setdefault(timer.window, {})[timer.clock, timer.timestamp_ms] = True
    return Windows(by_window)


def windows(by_key: Mapping[str, Mapping[TimeWindow, Any]]) -> dict[str, Windows]:
    """The changes of a batch that writes these values."""
    return {key: Windows(states) for key, states in by_key.items()}
