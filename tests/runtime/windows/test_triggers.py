"""When windows fire with each trigger."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from queryable_state.streaming import (
    ContinuousEventTimeTrigger,
    ContinuousProcessingTimeTrigger,
    CountTrigger,
    EventTimeSessionWindows,
    GlobalWindows,
    NeverTrigger,
    PurgingTrigger,
    Time,
    Trigger,
    TriggerResult,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
    Types,
    ValueStateDescriptor,
)
from queryable_state.streaming.testing import WindowedOperatorHarness
from queryable_state.wire.errors import InvalidRequestError, JobError

if TYPE_CHECKING:
    from collections.abc import Iterable

ROW = "k STRING, ts BIGINT, v BIGINT"
TUMBLING = TumblingEventTimeWindows.of(Time.milliseconds(100))
SESSIONS = EventTimeSessionWindows.with_gap(Time.milliseconds(10))


def summed(assigner: Any, trigger: Trigger[Any, Any] | None) -> WindowedOperatorHarness:
    """The first element of each window, with the sum of its values."""
    return WindowedOperatorHarness(
        assigner,
        lambda windowed: (windowed if trigger is None else windowed.trigger(trigger)).sum("v"),
        ROW,
        key_by="k",
        event_time="ts",
    )


def sums(outputs: Iterable[Any]) -> list[tuple[str, int]]:
    return sorted((each.k, each.v) for each in outputs)


def test_a_count_trigger_fires_each_number_of_elements_and_keeps_them() -> None:
    windows = summed(TUMBLING, CountTrigger.of(2))
    assert sums(windows.process([("a", 1, 1), ("b", 1, 8), ("a", 2, 2), ("a", 3, 4)])) == [("a", 3)]
    assert sums(windows.process([("a", 4, 8)])) == [("a", 15)]
    # The watermark only ends the windows.
    assert windows.process_watermark(1_000) == []
    assert windows.window_states("window-contents") == {}
    assert windows.window_states("count") == {}


def test_a_purging_trigger_drops_the_elements_when_the_nested_one_fires() -> None:
    windows = summed(TUMBLING, PurgingTrigger.of(CountTrigger.of(2)))
    rows = [("a", 1, 1), ("a", 2, 2), ("a", 3, 4), ("a", 4, 8), ("a", 5, 16)]
    assert sums(windows.process(rows)) == [("a", 3), ("a", 12)]
    assert {row.v for row in windows.window_states("window-contents").values()} == {16}


def test_the_global_window_fires_only_by_a_trigger_of_its_own() -> None:
    never = summed(GlobalWindows.create(), None)
    assert never.process([("a", 1, 1), ("a", 2, 2)]) == []
    assert never.process_watermark((1 << 63) - 1) == []
    # Its contents are state of the key.
    assert never.state("window-contents", "a") == ("a", 1, 3)
    counting = summed(GlobalWindows.create(), PurgingTrigger.of(CountTrigger.of(2)))
    assert sums(counting.process([("a", 1, 1), ("a", 2, 2), ("a", 3, 4)])) == [("a", 3)]
    assert sums(counting.process([("a", 4, 8)])) == [("a", 12)]


def test_a_continuous_event_time_trigger_fires_at_each_interval_and_at_the_end() -> None:
    windows = summed(TUMBLING, ContinuousEventTimeTrigger.of(Time.milliseconds(30)))
    windows.process([("a", 5, 1)])
    assert windows.process_watermark(29) == []
    assert sums(windows.process_watermark(30)) == [("a", 1)]
    windows.process([("a", 40, 2)])
    # Both times that the watermark has passed fire.
    assert sums(windows.process_watermark(95)) == [("a", 3), ("a", 3)]
    assert sums(windows.process_watermark(99)) == [("a", 3)]
    assert windows.window_states("fire-time") == {}
    assert windows.num_event_time_timers() == 0


def test_a_continuous_event_time_trigger_of_merged_windows_has_the_earliest_time() -> None:
    windows = summed(SESSIONS, ContinuousEventTimeTrigger.of(Time.milliseconds(4)))
    windows.process([("a", 1, 1), ("a", 9, 2)])
    assert sums(windows.process_watermark(4)) == [("a", 3)]
    assert sums(windows.process_watermark(8)) == [("a", 3)]
    assert sums(windows.process_watermark(18)) == [("a", 3)] * 3
    assert windows.window_states("fire-time") == {}
    assert windows.num_event_time_timers() == 0


def test_a_continuous_event_time_trigger_of_the_global_window_ends_with_the_input() -> None:
    trigger = ContinuousEventTimeTrigger.of(Time.milliseconds(30))
    windows = summed(GlobalWindows.create(), trigger)
    windows.process([("a", 5, 1)])
    assert sums(windows.process_watermark(60)) == [("a", 1)] * 2
    windows.process([("a", 70, 2)])
    assert sums(windows.process_watermark((1 << 63) - 1)) == [("a", 3)] * 2
    assert windows.num_event_time_timers() == 0


def test_a_continuous_processing_time_trigger_fires_at_each_interval() -> None:
    assigner = TumblingProcessingTimeWindows.of(Time.milliseconds(100))
    windows = summed(assigner, ContinuousProcessingTimeTrigger.of(Time.milliseconds(30)))
    windows.timestamp_ms = 1_205
    windows.process([("a", 1, 1)])
    assert windows.set_processing_time(1_229) == []
    assert sums(windows.set_processing_time(1_230)) == [("a", 1)]
    assert sums(windows.set_processing_time(1_299)) == [("a", 1)] * 3
    assert windows.window_states("window-contents") == {}
    assert windows.window_states("fire-time") == {}
    assert windows.num_processing_time_timers() == 0


def test_a_continuous_processing_time_trigger_stops_at_the_end_of_an_event_time_window() -> None:
    windows = summed(TUMBLING, ContinuousProcessingTimeTrigger.of(Time.milliseconds(30)))
    windows.timestamp_ms = 5
    windows.process([("a", 1, 1)])
    assert sums(windows.set_processing_time(500)) == [("a", 1)] * 4
    assert windows.set_processing_time(5_000) == []


def test_count_triggers_of_merged_windows_add_their_counts() -> None:
    windows = summed(SESSIONS, CountTrigger.of(4))
    assert windows.process([("a", 0, 1), ("a", 1, 16), ("a", 20, 2)]) == []
    assert sums(windows.process([("a", 10, 4)])) == [("a", 23)]
    assert windows.process([("a", 11, 8)]) == []


class Alarm(Trigger[Any, Any]):
    """Fires a fixed time after the first element of a window, once, and purges."""

    def __init__(self) -> None:
        self.first = ValueStateDescriptor("first", Types.LONG())

    def on_element(self, element: Any, timestamp: int, window: Any, ctx: Any) -> TriggerResult:
        first = ctx.get_partitioned_state(self.first)
        if first.value() is None:
            first.update(timestamp)
            ctx.register_event_time_timer(timestamp + 7)
        return TriggerResult.PURGE if element.v == 0 else TriggerResult.CONTINUE

    def on_processing_time(self, time: int, window: Any, ctx: Any) -> TriggerResult:
        return TriggerResult.CONTINUE

    def on_event_time(self, time: int, window: Any, ctx: Any) -> TriggerResult:
        first = ctx.get_partitioned_state(self.first).value()
        is_alarm = first is not None and time == first + 7
        return TriggerResult.FIRE_AND_PURGE if is_alarm else TriggerResult.CONTINUE

    def on_merge(self, window: Any, ctx: Any) -> None:
        raise NotImplementedError

    def clear(self, window: Any, ctx: Any) -> None:
        ctx.get_partitioned_state(self.first).clear()


def test_a_trigger_of_a_program_has_timers_and_state_of_its_own() -> None:
    windows = summed(TUMBLING, Alarm())
    windows.process([("a", 5, 1), ("a", 1, 2), ("b", 3, 4)])
    assert sums(windows.process_watermark(10)) == [("b", 4)]
    windows.process([("a", 6, 0), ("a", 7, 16)])
    assert sums(windows.process_watermark(12)) == [("a", 16)]
    assert set(windows.window_states("first").values()) == {5, 3}
    assert windows.process_watermark(1_000) == []
    assert windows.window_states("first") == {}


def test_a_trigger_that_cannot_merge_is_refused_for_sessions() -> None:
    for trigger in (Alarm(), NeverTrigger(), PurgingTrigger.of(Alarm())):
        with pytest.raises(InvalidRequestError, match="whose windows are merged"):
            summed(SESSIONS, trigger)


class Careless(CountTrigger[Any]):
    """Requests state that nothing has declared."""

    def on_element(self, element: Any, timestamp: int, window: Any, ctx: Any) -> TriggerResult:
        ctx.get_partitioned_state(ValueStateDescriptor("forgotten", Types.LONG()))
        return TriggerResult.CONTINUE


def test_state_of_a_trigger_that_is_no_attribute_is_refused() -> None:
    with pytest.raises(JobError, match=r"'forgotten'.*attribute of the trigger"):
        summed(TUMBLING, Careless(1)).process([("a", 1, 1)])


@pytest.mark.parametrize("size", [0, -1, True, 1.5])
def test_counts_and_intervals_are_positive(size: Any) -> None:
    with pytest.raises(InvalidRequestError, match="positive"):
        CountTrigger.of(size)
    with pytest.raises(InvalidRequestError, match="positive"):
        ContinuousEventTimeTrigger(size)
