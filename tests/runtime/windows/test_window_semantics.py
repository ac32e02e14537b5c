"""Which elements a window has, and when it fires and ends."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from tests.runtime.windows.windowed import (
    RESULT,
    ROW,
    SESSIONS,
    TUMBLING,
    Summed,
    harness,
    plain,
    summed,
)

from queryable_state.streaming import (
    CountSlidingWindowAssigner,
    CountTumblingWindowAssigner,
    EventTimeSessionWindows,
    OutputTag,
    ProcessingTimeSessionWindows,
    SessionWindowTimeGapExtractor,
    SlidingEventTimeWindows,
    Time,
    TimeWindow,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)
from queryable_state.streaming.runtime.windows.merging_window_set import MergingWindowSet
from queryable_state.streaming.testing import WindowedOperatorHarness
from queryable_state.wire.errors import InvalidRequestError


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


def test_dropped_late_elements_are_counted_in_one_log_line(
    caplog: pytest.LogCaptureFixture,
) -> None:
    late = OutputTag("late", ROW)
    dropping = harness(
        TUMBLING, lambda windowed: windowed.process(Summed(), RESULT), uid="drops", parallelism=1
    )
    keeping = harness(
        TUMBLING,
        lambda windowed: windowed.side_output_late_data(late).process(Summed(), RESULT),
        uid="keeps",
        side_outputs=[late],
    )
    with caplog.at_level(logging.WARNING):
        for windows in (dropping, keeping):
            windows.watermark_ms = 20
            windows.process([("a", 5, 1), ("b", 19, 1), ("a", 20, 1)])
            windows.process([("a", 5, 1)])
    (line,) = [record.getMessage() for record in caplog.records if "dropped" in record.message]
    assert "operator 'drops'" in line or "uid drops" in line
    assert "dropped 2 rows" in line
    assert "side_output_late_data" in line


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


@pytest.mark.parametrize("kind", ["process", "sum"])
def test_contents_of_a_session_are_under_its_bounds(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also of sessions that were stored under the window of their first element."""

    def operator(windowed: Any) -> Any:
        return windowed.process(Summed(), RESULT) if kind == "process" else windowed.sum("v")

    def kept() -> set[tuple[str, int, int]]:
        contents = windows.window_states("window-contents")
        return {(key, window.start, window.end) for key, window in contents}

    windows = harness(SESSIONS, operator)
    with monkeypatch.context() as patch:
        patch.setattr(MergingWindowSet, "moves", lambda _: [])
        windows.process([("a", 10, 1), ("a", 8, 2), ("a", 12, 4), ("b", 5, 8), ("a", 40, 1)])
        assert kept() == {("a", 10, 20), ("b", 5, 15), ("a", 40, 50)}
    windows.process([("a", 45, 2)])
    assert kept() == {("a", 8, 22), ("b", 5, 15), ("a", 40, 55)}
    windows.process([("a", 60, 8), ("b", 1, 1)])
    assert kept() == {("a", 8, 22), ("b", 1, 15), ("a", 40, 55), ("a", 60, 70)}
    windows.process([("a", 52, 16), ("a", 0, 32)])
    assert kept() == {("a", 0, 22), ("b", 1, 15), ("a", 40, 70)}
    ended = windows.process_watermark(100)
    assert sorted((each.k, each.v) for each in ended) == [("a", 27), ("a", 39), ("b", 9)]
    assert kept() == set()


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


def test_event_time_windows_need_event_time() -> None:
    with pytest.raises(InvalidRequestError, match="assign_timestamps_and_watermarks"):
        WindowedOperatorHarness(TUMBLING, lambda windowed: windowed.sum("v"), ROW, key_by="k")
    with pytest.raises(InvalidRequestError, match="has no timestamp"):
        summed(TUMBLING).process([("a", None, 1)])
