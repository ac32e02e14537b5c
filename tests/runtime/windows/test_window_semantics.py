"""Windows of a keyed stream, as the functions of a program see them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from queryable_state.streaming import OutputTag, Time, Types, ValueStateDescriptor
from queryable_state.streaming.functions import (
    AggregateFunction,
    ReducingStateDescriptor,
)
from queryable_state.streaming.testing import WindowedOperatorHarness
from queryable_state.streaming.windows.count_windows import (
    CountSlidingWindowAssigner,
    CountTumblingWindowAssigner,
)
from queryable_state.streaming.windows.session_windows import (
    EventTimeSessionWindows,
    ProcessingTimeSessionWindows,
    SessionWindowTimeGapExtractor,
)
from queryable_state.streaming.windows.sliding_windows import SlidingEventTimeWindows
from queryable_state.streaming.windows.tumbling_windows import (
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)
from queryable_state.streaming.windows.window import TimeWindow
from queryable_state.streaming.windows.window_functions import (
    ProcessWindowFunction,
    WindowFunction,
)
from queryable_state.wire.errors import InvalidRequestError, JobError

if TYPE_CHECKING:
    from collections.abc import Iterable

ROW = "k STRING, ts BIGINT, v BIGINT"
RESULT = "k STRING, start BIGINT, stop BIGINT, v BIGINT"
TUMBLING = TumblingEventTimeWindows.of(Time.milliseconds(10))
SESSIONS = EventTimeSessionWindows.with_gap(Time.milliseconds(10))


class Summed(ProcessWindowFunction):
    """Emits key, start, end and the sum of the elements."""

    def process(self, key: str, context: Any, elements: Iterable[Any]) -> Iterable[Any]:
        window = context.window()
        yield key, window.start, window.end, sum(each.v for each in elements)


def harness(assigner: Any, operator: Any, **options: Any) -> WindowedOperatorHarness:
    return WindowedOperatorHarness(assigner, operator, ROW, key_by="k", event_time="ts", **options)


def summed(assigner: Any, **options: Any) -> WindowedOperatorHarness:
    return harness(assigner, lambda windowed: windowed.process(Summed(), RESULT), **options)


def plain(outputs: Iterable[Any]) -> list[tuple[Any, ...]]:
    return sorted(tuple(each) for each in outputs)


def test_a_window_fires_when_the_watermark_reaches_its_last_timestamp() -> None:
    windows = summed(TUMBLING)
    assert windows.process([("a", 1, 1), ("a", 9, 2), ("a", 10, 4), ("b", 3, 8)]) == []
    assert windows.process_watermark(8) == []
    assert plain(windows.process_watermark(9)) == [("a", 0, 10, 3), ("b", 0, 10, 8)]
    assert plain(windows.process_watermark(100)) == [("a", 10, 20, 4)]


def test_a_window_that_has_ended_leaves_nothing_behind() -> None:
    tumbling, sessions = summed(TUMBLING), summed(SESSIONS)
    for windows in (tumbling, sessions):
        windows.process([("a", 1, 1), ("a", 5, 2), ("b", 3, 8)])
        windows.process_watermark(100)
        assert windows.window_states("window-contents") == {}
        assert windows.num_event_time_timers() == 0
    assert sessions.states("merging-window-set") == {}


def test_windows_start_at_the_offset() -> None:
    windows = summed(TumblingEventTimeWindows.of(Time.milliseconds(10), Time.milliseconds(3)))
    windows.process([("a", 2, 1), ("a", 3, 2), ("a", -8, 4)])
    assert plain(windows.process_watermark(100)) == [
        ("a", -17, -7, 4),
        ("a", -7, 3, 1),
        ("a", 3, 13, 2),
    ]


def test_an_element_is_in_every_sliding_window_over_its_time() -> None:
    assigner = SlidingEventTimeWindows.of(Time.milliseconds(10), Time.milliseconds(5))
    windows = summed(assigner)
    windows.process([("a", 7, 1), ("a", 12, 2)])
    assert plain(windows.process_watermark(100)) == [
        ("a", 0, 10, 1),
        ("a", 5, 15, 3),
        ("a", 10, 20, 2),
    ]


def test_with_a_slide_longer_than_the_size_elements_between_windows_belong_to_none() -> None:
    assigner = SlidingEventTimeWindows.of(Time.milliseconds(2), Time.milliseconds(5))
    windows = summed(assigner)
    windows.process([("a", 1, 1), ("a", 3, 2)])
    assert plain(windows.process_watermark(100)) == [("a", 0, 2, 1)]


def test_elements_behind_the_watermark_are_late_and_go_to_their_side_output() -> None:
    late = OutputTag("late", ROW)
    windows = harness(
        TUMBLING,
        lambda windowed: windowed.side_output_late_data(late).process(Summed(), RESULT),
        side_outputs=[late],
    )
    windows.watermark_ms = 9
    # The window of 8 has ended, although its element is not behind the watermark by much.
    assert windows.process([("a", 8, 1), ("a", 10, 2)]) == []
    assert [tuple(each) for each in windows.side_output(late)] == [("a", 8, 1)]
    assert plain(windows.process_watermark(100)) == [("a", 10, 20, 2)]


def test_an_element_that_is_late_for_some_windows_is_added_to_the_others() -> None:
    late = OutputTag("late", ROW)
    windows = harness(
        SlidingEventTimeWindows.of(Time.milliseconds(10), Time.milliseconds(5)),
        lambda windowed: windowed.side_output_late_data(late).process(Summed(), RESULT),
        side_outputs=[late],
    )
    windows.watermark_ms = 9
    windows.process([("a", 8, 1)])
    assert windows.side_output(late) == []
    assert plain(windows.process_watermark(100)) == [("a", 5, 15, 1)]


def test_within_the_allowed_lateness_a_window_fires_again_for_each_late_element() -> None:
    windows = harness(
        TUMBLING, lambda windowed: windowed.allowed_lateness(5).process(Summed(), RESULT)
    )
    windows.process([("a", 1, 1)])
    assert plain(windows.process_watermark(9)) == [("a", 0, 10, 1)]
    assert plain(windows.process([("a", 2, 2), ("a", 3, 4)])) == [("a", 0, 10, 3), ("a", 0, 10, 7)]
    assert windows.process_watermark(13) == []
    assert plain(windows.process([("a", 4, 8)])) == [("a", 0, 10, 15)]
    assert windows.process_watermark(14) == []
    assert windows.process([("a", 5, 16)]) == []
    assert windows.window_states("window-contents") == {}


def test_processing_time_windows_are_those_of_the_batches() -> None:
    windows = summed(TumblingProcessingTimeWindows.of(Time.milliseconds(10)))
    windows.timestamp_ms = 1_001
    windows.process([("a", 1, 1)])
    windows.timestamp_ms = 1_005
    windows.process([("a", 2, 2)])
    assert plain(windows.set_processing_time(1_009)) == [("a", 1_000, 1_010, 3)]
    assert windows.window_states("window-contents") == {}
    assert windows.num_processing_time_timers() == 0


def test_sessions_end_with_a_gap_and_grow_together() -> None:
    windows = summed(SESSIONS)
    windows.process([("a", 0, 1), ("a", 20, 2), ("b", 5, 8)])
    assert set(windows.window_states("window-contents")) == {
        ("a", TimeWindow(0, 10)),
        ("a", TimeWindow(20, 30)),
        ("b", TimeWindow(5, 15)),
    }
    windows.process([("a", 10, 4)])
    assert plain(windows.process_watermark(28)) == [("b", 5, 15, 8)]
    assert plain(windows.process_watermark(29)) == [("a", 0, 30, 7)]


def test_processing_time_sessions_end_with_a_gap_between_batches() -> None:
    windows = summed(ProcessingTimeSessionWindows.with_gap(Time.milliseconds(10)))
    windows.timestamp_ms = 1_000
    windows.process([("a", 1, 1)])
    windows.timestamp_ms = 1_008
    windows.process([("a", 1, 2)])
    assert windows.set_processing_time(1_016) == []
    assert plain(windows.set_processing_time(1_017)) == [("a", 1_000, 1_018, 3)]


def test_the_gap_of_a_session_may_depend_on_the_element() -> None:
    class Gap(SessionWindowTimeGapExtractor):
        def extract(self, element: Any) -> int:
            return int(element.v)

    windows = summed(EventTimeSessionWindows.with_dynamic_gap(Gap()))
    windows.process([("a", 0, 5), ("a", 4, 20), ("a", 30, 1)])
    # The same window again as a session that is stored under another one.
    windows.process([("a", 0, 24)])
    assert plain(windows.process_watermark(100)) == [("a", 0, 24, 49), ("a", 30, 31, 1)]


def test_count_windows_fire_with_their_last_element() -> None:
    windows = harness(CountTumblingWindowAssigner.of(2), lambda windowed: windowed.sum("v"))
    assert plain(windows.process([("a", 1, 1), ("b", 1, 8), ("a", 2, 2)])) == [("a", 1, 3)]
    assert plain(windows.process([("a", 3, 4), ("a", 4, 5), ("b", 2, 1)])) == [
        ("a", 3, 9),
        ("b", 1, 9),
    ]
    assert windows.window_states("window-contents") == {}


def test_sliding_count_windows_have_the_last_elements() -> None:
    windows = harness(CountSlidingWindowAssigner.of(3, 2), lambda windowed: windowed.sum("v"))
    rows = [("a", number, number) for number in range(7)]
    fired = [each for row in rows for each in windows.process([row])]
    assert plain(fired) == [("a", 0, 3), ("a", 2, 9), ("a", 4, 15)]


class Average(AggregateFunction):
    """The average of the values, by sum and number."""

    def create_accumulator(self) -> tuple[int, int]:
        return 0, 0

    def add(self, value: Any, accumulator: tuple[int, int]) -> tuple[int, int]:
        return accumulator[0] + value.v, accumulator[1] + 1

    def get_result(self, accumulator: tuple[int, int]) -> float:
        return accumulator[0] / accumulator[1]

    def merge(self, acc_a: tuple[int, int], acc_b: tuple[int, int]) -> tuple[int, int]:
        return acc_a[0] + acc_b[0], acc_a[1] + acc_b[1]


class Alone(WindowFunction):
    """Emits the only element with the key."""

    def apply(self, key: str, window: Any, inputs: Iterable[Any]) -> Iterable[Any]:
        (only,) = inputs
        return [(key, only)]


def test_an_aggregated_window_has_its_result_and_sessions_merge_accumulators() -> None:
    accumulator = Types.TUPLE([Types.LONG(), Types.LONG()])
    for assigner in (TUMBLING, SESSIONS):
        windows = harness(
            assigner,
            lambda windowed: windowed.aggregate(
                Average(), Alone(), accumulator, "k STRING, mean DOUBLE"
            ),
        )
        windows.process([("a", 0, 1), ("a", 9, 4)])
        windows.process([("a", 5, 4), ("b", 5, 7)])
        assert plain(windows.process_watermark(100)) == [("a", 3.0), ("b", 7.0)]


def test_without_a_window_function_the_aggregate_is_emitted() -> None:
    windows = harness(TUMBLING, lambda windowed: windowed.aggregate(Average()))
    windows.process([("a", 0, 1), ("a", 9, 4)])
    assert windows.process_watermark(9) == [2.5]


def test_live_windows_are_queryable_by_key_and_window() -> None:
    windows = harness(TUMBLING, lambda windowed: windowed.max("v"))
    windows.process([("a", 1, 5), ("a", 2, 3), ("a", 11, 1)])
    live = windows.window_states("window-contents")
    assert {(key, window): row.v for (key, window), row in live.items()} == {
        ("a", TimeWindow(0, 10)): 5,
        ("a", TimeWindow(10, 20)): 1,
    }
    named = harness(
        TUMBLING,
        lambda windowed: windowed.aggregate(
            Average(), queryable_name="mean", accumulator_type="s BIGINT, n BIGINT"
        ),
    )
    named.process([("a", 1, 5), ("a", 2, 3)])
    assert named.window_states("mean") == {("a", TimeWindow(0, 10)): 4.0}


def test_the_queryable_state_of_a_windowed_stream_has_its_live_windows_or_the_newest_fired() -> (
    None
):
    def greatest(one: Any, other: Any) -> Any:
        return one if one.v >= other.v else other

    def maxima() -> ReducingStateDescriptor[Any]:
        return ReducingStateDescriptor("maxima", greatest, ROW)

    live = harness(TUMBLING, lambda windowed: windowed.as_queryable_state("live", maxima()))
    live.process([("a", 1, 5), ("a", 2, 3), ("a", 11, 1)])
    assert live.window_states("live") == {
        ("a", TimeWindow(0, 10)): ("a", 1, 5),
        ("a", TimeWindow(10, 20)): ("a", 11, 1),
    }
    assert live.process_watermark(9) == []
    assert live.window_states("live") == {("a", TimeWindow(10, 20)): ("a", 11, 1)}

    fired = harness(
        TUMBLING,
        lambda windowed: windowed.allowed_lateness(100).as_queryable_state(
            "fired", maxima(), fired=True
        ),
    )
    fired.process([("a", 1, 5), ("a", 2, 3), ("a", 11, 1)])
    assert fired.states("fired") == {}
    fired.process_watermark(9)
    assert fired.states("fired") == {"a": ("a", 1, 5)}
    fired.process_watermark(19)
    assert fired.states("fired") == {"a": ("a", 11, 1)}
    # A late element fires the window before the newest again.
    fired.process([("a", 3, 7)])
    assert fired.states("fired") == {"a": ("a", 11, 1)}


class Numbered(ProcessWindowFunction):
    """Numbers the firings of each window, and those of each key."""

    def __init__(self) -> None:
        self.of_window = ValueStateDescriptor("of_window", Types.LONG())
        self.of_key = ValueStateDescriptor("of_key", Types.LONG())

    def open(self, runtime_context: Any) -> None:
        runtime_context.get_state(self.of_key)

    def process(self, key: str, context: Any, elements: Iterable[Any]) -> Iterable[Any]:
        numbers = []
        for store, descriptor in (
            (context.window_state(), self.of_window),
            (context.global_state(), self.of_key),
        ):
            state = store.get_state(descriptor)
            state.update((state.value() or 0) + 1)
            numbers.append(state.value())
        yield key, context.window().start, *numbers

    def clear(self, context: Any) -> None:
        context.window_state().get_state(self.of_window).clear()


def test_a_function_has_state_of_its_window_and_of_its_key() -> None:
    windows = harness(
        TUMBLING, lambda windowed: windowed.allowed_lateness(5).process(Numbered(), RESULT)
    )
    windows.process([("a", 1, 1), ("a", 11, 1)])
    assert plain(windows.process_watermark(9)) == [("a", 0, 1, 1)]
    assert plain(windows.process([("a", 2, 1)])) == [("a", 0, 2, 2)]
    assert windows.window_states("of_window") == {("a", TimeWindow(0, 10)): 2}
    assert plain(windows.process_watermark(19)) == [("a", 10, 1, 3)]
    windows.process_watermark(100)
    assert windows.window_states("of_window") == {}
    assert windows.states("of_key") == {"a": 3}


def test_merged_windows_have_no_state_of_their_own() -> None:
    windows = harness(SESSIONS, lambda windowed: windowed.process(Numbered(), RESULT))
    windows.process([("a", 1, 1)])
    with pytest.raises(InvalidRequestError, match=r"window_state\(\).*use global_state\(\)"):
        windows.process_watermark(100)


def test_state_of_a_window_whose_descriptor_is_unknown_is_refused() -> None:
    class Late(ProcessWindowFunction):
        def process(self, key: str, context: Any, elements: Iterable[Any]) -> Iterable[Any]:
            context.window_state().get_state(ValueStateDescriptor("unknown", Types.LONG()))
            return []

    windows = harness(TUMBLING, lambda windowed: windowed.process(Late(), RESULT))
    windows.process([("a", 1, 1)])
    with pytest.raises(JobError, match=r"'unknown'.*keep its descriptor in an attribute"):
        windows.process_watermark(9)


def test_event_time_windows_need_event_time() -> None:
    with pytest.raises(InvalidRequestError, match="assign_timestamps_and_watermarks"):
        WindowedOperatorHarness(TUMBLING, lambda windowed: windowed.sum("v"), ROW, key_by="k")
    with pytest.raises(InvalidRequestError, match="has no timestamp"):
        summed(TUMBLING).process([("a", None, 1)])


def test_the_function_sees_the_clocks_of_the_batch_that_fires() -> None:
    class Clocks(ProcessWindowFunction):
        def process(self, key: str, context: Any, elements: Iterable[Any]) -> Iterable[Any]:
            yield key, context.current_processing_time(), context.current_watermark(), 0

    windows = harness(TUMBLING, lambda windowed: windowed.process(Clocks(), RESULT))
    windows.process([("a", 1, 1)])
    windows.timestamp_ms = 5_000
    assert plain(windows.process_watermark(33)) == [("a", 5_000, 33, 0)]
