"""Vectorised aggregations of windows: outputs, state, timers, and what they refuse."""

from __future__ import annotations

import logging
import math
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
from tests.runtime.aggregates.windowed import rows_of, time_windows, windowed

from queryable_state.streaming import (
    OutputTag,
    Time,
    Types,
    avg_of,
    count_rows,
    max_of,
    min_of,
    sum_of,
)
from queryable_state.streaming.testing import InMemoryStateBackend, WindowedOperatorHarness
from queryable_state.streaming.windows.purging_trigger import PurgingTrigger
from queryable_state.streaming.windows.session_windows import EventTimeSessionWindows
from queryable_state.streaming.windows.time_triggers import EventTimeTrigger
from queryable_state.wire.errors import InvalidRequestError, SerializationError
from queryable_state.wire.keys.time_window import TimeWindow

TEN = time_windows(10, 10, 0)
SLIDING = time_windows(10, 5, 0)
COUNT = {"n": count_rows()}


def test_a_window_emits_one_row_when_the_watermark_reaches_its_last_millisecond() -> None:
    windows = windowed({"n": count_rows(), "total": sum_of("v")}, TEN)
    assert windows.process([("a", 1, 1), ("a", 9, 2), ("a", 10, 4), ("b", 3, 8)]) == []
    assert windows.process_watermark(8) == []
    assert rows_of(windows.process_watermark(9)) == [("a", 0, 10, 2, 3), ("b", 0, 10, 1, 8)]
    assert rows_of(windows.process_watermark(100)) == [("a", 10, 20, 1, 4)]


def test_start_and_end_of_a_window_are_timestamps() -> None:
    windows = windowed(COUNT, TEN)
    windows.process([("a", -3, 1)])
    (row,) = windows.process_watermark(100)
    assert row.window_start == datetime(1969, 12, 31, 23, 59, 59, 990_000, tzinfo=UTC)
    assert row.window_end == datetime(1970, 1, 1, tzinfo=UTC)


def test_the_short_forms_name_their_outputs_as_the_columns() -> None:
    for method, expected in (("sum", 5), ("min", 2), ("max", 3), ("avg", 2.5)):
        windows = short_form(f"aggregate_{method}", "v")
        windows.process([("a", 1, 2), ("a", 2, None), ("a", 3, 3)])
        (row,) = windows.process_watermark(100)
        assert row.v == expected
    counted = short_form("aggregate_count")
    counted.process([("a", 1, 2), ("a", 2, None), ("a", 3, 3)])
    assert counted.process_watermark(100)[0].count == 3


def short_form(method: str, *arguments: str) -> WindowedOperatorHarness:
    return WindowedOperatorHarness(
        TEN,
        lambda windows: getattr(windows, method)(*arguments),
        "k string, t bigint, v bigint",
        key_by="k",
        event_time="t",
    )


def test_aggregates_of_all_types_go_through_the_state() -> None:
    windows = windowed(
        {"s": sum_of("d"), "least": min_of("s"), "last": max_of("at"), "mean": avg_of("f")},
        SLIDING,
        columns="d decimal(12,2), s string, at date, f float",
    )
    rows = [
        ("a", 6, Decimal("1.25"), "y", date(2020, 1, 2), 1.5),
        ("a", 7, None, None, None, None),
        ("a", 8, Decimal("-3.00"), "x", date(2019, 1, 2), 2.5),
    ]
    for row in rows:
        windows.process([row])
    expected = (Decimal("-1.75"), "x", date(2020, 1, 2), 2.0)
    assert rows_of(windows.process_watermark(100)) == [
        ("a", 0, 10, *expected),
        ("a", 5, 15, *expected),
    ]


def test_the_aggregate_of_only_nulls_is_null() -> None:
    windows = windowed({"total": sum_of("v"), "mean": avg_of("v"), "n": count_rows()}, SLIDING)
    windows.process([("a", 7, None)])
    windows.process([("a", 7, None)])
    assert rows_of(windows.process_watermark(100)) == [
        ("a", 0, 10, None, None, 2),
        ("a", 5, 15, None, None, 2),
    ]


def test_live_windows_are_state_by_key_and_window() -> None:
    windows = windowed({"total": sum_of("v"), "mean": avg_of("v")}, SLIDING)
    windows.process([("a", 7, 1), ("b", 7, None)])
    assert windows.window_states("windows") == {
        ("a", TimeWindow(0, 10)): (1, 1, 1),
        ("a", TimeWindow(5, 15)): (1, 1, 1),
        ("b", TimeWindow(0, 10)): (None, None, 0),
        ("b", TimeWindow(5, 15)): (None, None, 0),
    }
    windows.process_watermark(9)
    assert set(windows.window_states("windows")) == {
        ("a", TimeWindow(5, 15)),
        ("b", TimeWindow(5, 15)),
    }


def test_keys_of_several_columns_are_output_columns() -> None:
    windows = windowed(COUNT, TEN, key="carrier string, number int", key_by=["carrier", "number"])
    windows.process([("AA", 1, 3, 0), ("AA", 1, 4, 0), ("UA", 2, 5, 0)])
    assert rows_of(windows.process_watermark(100), keys=2) == [
        ("AA", 1, 0, 10, 2),
        ("UA", 2, 0, 10, 1),
    ]


@pytest.mark.parametrize("assigner", [TEN, SLIDING])
def test_sums_of_floats_are_the_same_wherever_batches_are_cut(assigner: Any) -> None:
    rows = [("a", 6, value) for value in (0.1, 1e30, 0.2, -1e30, 0.3, math.pi)]
    results = []
    for batches in ([rows], [rows[:2], rows[2:]], [[row] for row in rows]):
        windows = windowed(
            {"total": sum_of("v"), "mean": avg_of("v")}, assigner, columns="v double", chunk_rows=2
        )
        for batch in batches:
            windows.process(batch)
        results.append(rows_of(windows.process_watermark(100)))
    assert results[0] == results[1] == results[2]


def test_late_elements_are_dropped_and_counted_in_one_line(
    caplog: pytest.LogCaptureFixture,
) -> None:
    windows = windowed(COUNT, TEN, uid="late", parallelism=1)
    windows.watermark_ms = 20
    with caplog.at_level(logging.WARNING):
        windows.process([("a", 5, 1), ("b", 19, 1), ("a", 20, 1)])
        windows.process([("a", 5, 1)])
    (line,) = [record.getMessage() for record in caplog.records if "dropped" in record.message]
    assert "dropped 2 rows" in line
    assert "side_output_late_data" in line
    assert rows_of(windows.process_watermark(100)) == [("a", 20, 30, 1)]


def test_a_late_element_that_is_allowed_emits_the_window_again() -> None:
    tag = OutputTag("late", Types.ROW_NAMED(["k", "t", "v"], [Types.STRING(), *[Types.LONG()] * 2]))
    windows = windowed({"total": sum_of("v")}, TEN, lateness=5, late_tag=tag)
    windows.process([("a", 1, 1)])
    assert rows_of(windows.process_watermark(10)) == [("a", 0, 10, 1)]
    assert rows_of(windows.process([("a", 2, 10), ("a", 3, 100)])) == [("a", 0, 10, 111)]
    assert windows.side_output(tag) == []
    windows.watermark_ms = 14
    assert windows.process([("a", 4, 1000)]) == []
    assert [tuple(row) for row in windows.side_output(tag)] == [("a", 4, 1000)]
    assert windows.window_states("windows") == {}
    assert windows.num_event_time_timers() == 0


def test_a_window_is_fetched_once_a_batch_and_has_one_timer() -> None:
    windows = windowed(COUNT, SLIDING, parallelism=1, chunk_rows=4)
    for _ in range(2):
        windows.process([(f"k{number % 3}", 7, 0) for number in range(12)])
    backend = windows.backend
    assert isinstance(backend, InMemoryStateBackend)
    assert [len(fetch.keys) for fetch in backend.fetches] == [6, 6]
    assert windows.num_event_time_timers() == 6


def test_many_windows_fire_in_pages() -> None:
    windows = windowed(COUNT, TEN, parallelism=1)
    assert isinstance(windows.backend, InMemoryStateBackend)
    windows.backend.due_limit = 7
    windows.process([(f"k{number}", number, 0) for number in range(100)])
    emitted = windows.process_watermark(79)
    assert len(emitted) == 80
    assert [row.window_end for row in emitted] == sorted(row.window_end for row in emitted)
    assert len(windows.window_states("windows")) == 20


def test_a_processing_time_window_that_fires_begins_anew_in_its_last_millisecond() -> None:
    windows = windowed(COUNT, time_windows(10, 10, 0, event_time=False))
    windows.timestamp_ms = 15
    windows.process([("a", 0, 0), ("a", 0, 0)])
    windows.timestamp_ms = 19
    assert rows_of(windows.process([("a", 0, 0)])) == [("a", 10, 20, 2)]
    assert rows_of(windows.set_processing_time(20)) == [("a", 10, 20, 1)]


def test_the_state_goes_with_its_keys_to_another_parallelism() -> None:
    windows = windowed(COUNT, SLIDING, parallelism=3)
    windows.process([(f"k{number}", 7, 0) for number in range(20)])
    windows.rescale(2)
    windows.process([(f"k{number}", 7, 0) for number in range(20)])
    assert rows_of(windows.process_watermark(9)) == sorted(
        [(f"k{number}", 0, 10, 2) for number in range(20)], key=repr
    )


def test_an_element_without_a_timestamp_fails_the_batch() -> None:
    with pytest.raises(InvalidRequestError, match="1 of 2 elements have no timestamp"):
        windowed(COUNT, TEN, parallelism=1).process([("a", None, 1), ("a", 1, 1)])


def test_a_timestamp_out_of_range_fails_the_batch() -> None:
    with pytest.raises(InvalidRequestError, match="timestamp 9223372036854775807"):
        windowed(COUNT, TEN).process([("a", 2**63 - 1, 1)])


def test_a_sum_beyond_its_type_fails_with_key_and_window() -> None:
    for assigner in (TEN, SLIDING):
        windows = windowed({"total": sum_of("v")}, assigner)
        windows.process([("a", 11, 2**63 - 10)])
        with pytest.raises(SerializationError, match=r"key 'a', window 10 to 20 overflows bigint"):
            windows.process([("a", 12, 10)])


@pytest.mark.parametrize(
    ("of", "rows"), [("int", [2**31 - 1, 1, -5]), ("smallint", [32767, -1, 1])]
)
def test_panes_of_narrow_sums_may_exceed_the_type(of: str, rows: list[int]) -> None:
    windows = windowed({"total": sum_of("v")}, SLIDING, columns=f"v {of}")
    windows.process([("a", 6, -10)])
    windows.process([("a", 6, value) for value in rows])
    total = sum(rows) - 10
    assert rows_of(windows.process_watermark(100)) == [("a", 0, 10, total), ("a", 5, 15, total)]


def test_other_windows_and_triggers_are_refused() -> None:
    sessions = EventTimeSessionWindows.with_gap(Time.milliseconds(10))
    with pytest.raises(InvalidRequestError, match="takes tumbling or sliding windows of time"):
        windowed(COUNT, sessions)
    trigger = PurgingTrigger.of(EventTimeTrigger())
    with pytest.raises(InvalidRequestError, match=r"takes no trigger.*aggregate\(\) or reduce\(\)"):
        WindowedOperatorHarness(
            TEN,
            lambda windows: windows.trigger(trigger).aggregate_count(),
            "k string, t bigint",
            key_by="k",
            event_time="t",
        )


@pytest.mark.parametrize(
    ("aggregates", "text"),
    [
        ({}, "at least one column"),
        ({"v": sum_of("missing")}, "column 'missing' does not exist"),
        ({"k": sum_of("v")}, "two output columns have the name 'k'"),
        ({"window_end": sum_of("v")}, "two output columns have the name 'window_end'"),
        ({"x": avg_of("v"), "x_count": count_rows()}, "two aggregates .* the column 'x_count'"),
        ({"v": sum_of("k")}, "a column of type string has no sum"),
        ({"v": avg_of("k")}, "a column of type string has no avg"),
        ({"v": "v"}, "an aggregate is a sum_of"),
    ],
)
def test_wrong_aggregates_are_refused(aggregates: dict[str, Any], text: str) -> None:
    with pytest.raises(InvalidRequestError, match=text):
        windowed(aggregates, TEN)


@pytest.mark.parametrize(("before", "after"), [(0, 5), (5, 0)])
def test_size_and_lateness_may_change_while_windows_are_live(before: int, after: int) -> None:
    old = windowed(COUNT, TEN, lateness=before)
    old.process([("a", 1, 0)])
    new = windowed(COUNT, time_windows(4, 4, 0), lateness=after)
    new.restore(old.snapshot())
    assert rows_of(new.process([("a", 2, 0)])) == []
    assert rows_of(new.process_watermark(9)) == [("a", 0, 10, 1), ("a", 0, 4, 1)]
    new.process_watermark(14)
    assert new.window_states("windows") == {}
    assert new.num_event_time_timers() == 0
