"""Timers as records of a TIMER state have them, in the order in which they fire."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from queryable_state.wire.errors import CorruptDataError
from queryable_state.wire.keys.pending_timers import PendingTimer, decode_timers, timers_jsonable
from queryable_state.wire.keys.time_window import TimeWindow
from queryable_state.wire.keys.timer_keys import Clock, index_key_of, timer_element

LONGS = st.integers(-(1 << 63), (1 << 63) - 1)
WINDOWS = st.tuples(LONGS, LONGS).map(lambda bounds: TimeWindow(*sorted(bounds)))
TIMERS = st.builds(PendingTimer, st.sampled_from(Clock), LONGS, st.none() | WINDOWS)


@given(st.lists(TIMERS, unique=True))
def test_timers_of_a_key_are_sorted_as_the_keys_of_the_time_ordered_index(
    timers: list[PendingTimer],
) -> None:
    key = b"\x00\x01key"
    by_index = sorted(timers, key=lambda timer: index_key_of(key + timer.element))
    assert decode_timers(timer.element for timer in timers) == by_index


@given(LONGS)
def test_times_of_numpy_are_those_of_python(at: int) -> None:
    assert timer_element(Clock.EVENT_TIME, np.int64(at)) == timer_element(Clock.EVENT_TIME, at)


@pytest.mark.parametrize("element", [b"", b"\x00", b"\x00" * 9, b"\x00\x02" + bytes(8), bytes(11)])
def test_other_bytes_are_no_timers(element: bytes) -> None:
    with pytest.raises(CorruptDataError):
        decode_timers([element])


def test_timers_are_json() -> None:
    timers = [
        PendingTimer(Clock.EVENT_TIME, 5),
        PendingTimer(Clock.EVENT_TIME, 9, TimeWindow(0, 10)),
    ]
    assert timers_jsonable(timers) == [
        {"clock": "EVENT_TIME", "timestamp_ms": 5, "window": None},
        {"clock": "EVENT_TIME", "timestamp_ms": 9, "window": {"start_ms": 0, "end_ms": 10}},
    ]
