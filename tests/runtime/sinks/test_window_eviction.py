"""The latest-value sink with windows: values are removed when the watermark has passed them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.samples import sampled

from queryable_state.streaming import StateTtlConfig, Time, Types, ValueStateDescriptor
from queryable_state.streaming.graph.elements import Columns
from queryable_state.streaming.ordering import order_columns
from queryable_state.streaming.runtime.operators.operators import LatestValueSink
from queryable_state.streaming.runtime.operators.sink_window import SinkWindow
from queryable_state.streaming.testing import InMemoryStateBackend, KeyedOperatorHarness
from queryable_state.wire.errors import InvalidRequestError
from queryable_state.wire.keys.time_window import TimeWindow
from queryable_state.wire.schema.types import type_info

ROW = type_info("sensor STRING, window STRUCT<start: TIMESTAMP, end: TIMESTAMP>, count BIGINT")
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
SECOND = 1_000


def at(seconds: float) -> datetime:
    return EPOCH + timedelta(seconds=seconds)


def row(sensor: str, minute: int, count: int) -> tuple[Any, ...]:
    """The count of a sensor in a window of one minute."""
    return sensor, (at(60 * minute), at(60 * minute + 60)), count


def harness_of(
    *, by_window: bool, whole: bool = True, latest_by: Any = None, **options: Any
) -> KeyedOperatorHarness:
    """Counts by sensor and window: the window apart from the key, or in it."""
    retain_ms = options.pop("retain_ms", 0)
    window = SinkWindow(column="window", is_key=not by_window, retain_ms=retain_ms)
    columns = Columns({field.name: field.type for field in ROW.fields})
    order = order_columns(latest_by, columns, "latest_by")
    descriptor = ValueStateDescriptor("counts", ROW if whole else Types.LONG())
    if "ttl" in options:
        descriptor.enable_time_to_live(options.pop("ttl"))
    names = columns.names if whole else ("count",)
    return KeyedOperatorHarness(
        LatestValueSink.of(descriptor, names, order, window),
        ROW,
        key_by="sensor" if by_window else ["sensor", "window"],
        value_column=None if whole else "count",
        **options,
    )


def stored(harness: KeyedOperatorHarness, *, by_window: bool) -> dict[tuple[str, int], int]:
    """The counts by sensor and the minute of the window."""
    found: dict[tuple[str, int], int] = {}
    states = harness.window_states("counts") if by_window else harness.states("counts")
    for (sensor, window), value in states.items():
        start = window.start if isinstance(window, TimeWindow) else window[0].timestamp() * 1000
        found[sensor, int(start) // 60_000] = value if isinstance(value, int) else value.count
    return found


both = pytest.mark.parametrize("by_window", [True, False])
stores = pytest.mark.parametrize("whole", [True, False])


@both
@stores
def test_a_key_has_a_value_for_each_window_and_the_last_one_of_a_batch_stays(
    by_window: bool, whole: bool
) -> None:
    harness = harness_of(by_window=by_window, whole=whole, chunk_rows=2)
    harness.process([row("a", 0, 1), row("a", 1, 5), row("b", 0, 3), row("a", 0, 2)])
    harness.process([row("b", 1, 7), row("a", 1, 6)])
    expected = {("a", 0): 2, ("a", 1): 6, ("b", 0): 3, ("b", 1): 7}
    assert stored(harness, by_window=by_window) == expected


@both
def test_a_value_is_removed_when_the_watermark_reaches_the_end_of_its_window(
    by_window: bool,
) -> None:
    harness = harness_of(by_window=by_window)
    harness.process([row("a", 0, 1), row("b", 0, 2), row("a", 1, 3)])
    assert harness.num_event_time_timers() == 3
    harness.process_watermark(60 * SECOND - 1)
    assert len(stored(harness, by_window=by_window)) == 3
    harness.process_watermark(60 * SECOND)
    assert stored(harness, by_window=by_window) == {("a", 1): 3}
    assert harness.num_event_time_timers() == 1
    harness.process_watermark(10_000 * SECOND)
    assert stored(harness, by_window=by_window) == {}
    assert harness.num_event_time_timers() == 0


@both
def test_a_window_that_is_updated_each_batch_has_one_timer(by_window: bool) -> None:
    harness = harness_of(by_window=by_window)
    for count in range(4):
        harness.process([row("a", 0, count)])
    assert harness.num_event_time_timers() == 1


@both
def test_values_are_kept_for_the_time_to_retain(by_window: bool) -> None:
    harness = harness_of(by_window=by_window, retain_ms=30 * SECOND)
    harness.process([row("a", 0, 1)])
    harness.process_watermark(90 * SECOND - 1)
    assert stored(harness, by_window=by_window) == {("a", 0): 1}
    harness.process_watermark(90 * SECOND)
    assert stored(harness, by_window=by_window) == {}


@both
def test_values_that_are_kept_forever_have_no_timers(by_window: bool) -> None:
    harness = harness_of(by_window=by_window, retain_ms=None)
    harness.process([row("a", 0, 1)])
    assert harness.num_event_time_timers() == 0
    harness.process_watermark(2**63 - 1)
    assert stored(harness, by_window=by_window) == {("a", 0): 1}


@both
def test_an_update_in_the_batch_that_passes_a_window_is_stored_and_removed_with_the_next_batch(
    by_window: bool,
) -> None:
    harness = harness_of(by_window=by_window)
    harness.process([row("a", 0, 1), row("b", 0, 1)])
    harness.watermark_ms = 60 * SECOND
    harness.process([row("a", 0, 2)])
    assert stored(harness, by_window=by_window) == {("a", 0): 2}
    harness.process([])
    assert stored(harness, by_window=by_window) == {}
    assert harness.num_event_time_timers() == 0


@both
@stores
def test_a_removed_value_does_not_decide_the_order_of_a_later_one(
    by_window: bool, whole: bool
) -> None:
    harness = harness_of(by_window=by_window, whole=whole, latest_by="count")
    harness.process([row("a", 0, 9), row("a", 1, 9), row("a", 1, 3)])
    harness.watermark_ms = 60 * SECOND
    harness.process([row("a", 0, 5), row("a", 1, 5)])
    assert stored(harness, by_window=by_window) == {("a", 0): 5, ("a", 1): 9}


def test_the_order_that_is_stored_apart_is_removed_with_its_value() -> None:
    harness = harness_of(by_window=True, whole=False, latest_by="count")
    harness.process([row("a", 0, 9)])
    assert [order.count for order in harness.window_states("counts.latest_by").values()] == [9]
    harness.process_watermark(60 * SECOND)
    assert harness.window_states("counts.latest_by") == {}


@both
def test_a_batch_that_runs_again_removes_the_same_windows(by_window: bool) -> None:
    harness = harness_of(by_window=by_window)
    harness.process([row("a", 0, 1), row("b", 1, 1)])
    harness.watermark_ms = 60 * SECOND
    for _ in range(2):
        harness.run([row("b", 1, 2)])
    harness.commit()
    assert stored(harness, by_window=by_window) == {("b", 1): 2}
    assert harness.num_event_time_timers() == 1


@both
def test_windows_are_removed_after_a_restart_at_another_parallelism(by_window: bool) -> None:
    harness = harness_of(by_window=by_window, parallelism=3)
    sensors = [f"sensor_{number}" for number in range(20)]
    harness.process([row(sensor, minute, 1) for sensor in sensors for minute in (0, 1)])
    taken = harness.snapshot()
    for parallelism in (1, 4):
        started = harness_of(by_window=by_window, parallelism=parallelism)
        started.restore(taken)
        started.process_watermark(60 * SECOND)
        left = {(sensor, 1): 1 for sensor in sensors}
        assert stored(started, by_window=by_window) == left
        started.rescale(parallelism + 1)
        started.process_watermark(120 * SECOND)
        assert stored(started, by_window=by_window) == {}


@both
def test_a_start_that_retains_longer_keeps_what_is_stored_longer(by_window: bool) -> None:
    before = harness_of(by_window=by_window)
    before.process([row("a", 0, 1), row("a", 1, 1)])
    after = harness_of(by_window=by_window, retain_ms=60 * SECOND)
    after.restore(before.snapshot())
    after.process_watermark(60 * SECOND)
    after.process_watermark(120 * SECOND - 1)
    assert stored(after, by_window=by_window) == {("a", 0): 1, ("a", 1): 1}
    after.process_watermark(120 * SECOND)
    assert stored(after, by_window=by_window) == {("a", 1): 1}


@both
def test_a_start_that_keeps_windows_forever_removes_none_that_are_stored(by_window: bool) -> None:
    before = harness_of(by_window=by_window)
    before.process([row("a", 0, 1)])
    after = harness_of(by_window=by_window, retain_ms=None)
    after.restore(before.snapshot())
    after.process_watermark(60 * SECOND)
    assert stored(after, by_window=by_window) == {("a", 0): 1}
    assert after.num_event_time_timers() == 0


def test_values_of_windows_may_have_a_ttl() -> None:
    ttl = StateTtlConfig.new_builder(Time.seconds(10)).build()
    harness = harness_of(by_window=True, ttl=ttl)
    harness.process([row("a", 0, 1), row("a", 1, 1)])
    harness.timestamp_ms += 9_000
    harness.process([row("a", 1, 2)])
    harness.timestamp_ms += 1_000
    harness.process([])
    assert stored(harness, by_window=True) == {("a", 1): 2}


@pytest.mark.parametrize(
    ("window", "said"),
    [
        (None, "is null in 1 of 1 rows: filter these rows"),
        ((None, at(60)), "is null in 1 of 1 rows: filter these rows"),
        ((at(60), at(0)), "ends before it starts"),
        ((at(0), at(0.0005)), "not a whole millisecond"),
    ],
)
def test_a_row_without_a_usable_window_is_refused(window: Any, said: str) -> None:
    harness = harness_of(by_window=True)
    with pytest.raises(InvalidRequestError, match=f"column 'window'.*{said}"):
        harness.process([("a", window, 1)])


def test_windows_may_be_of_any_length_and_before_1970() -> None:
    harness = harness_of(by_window=True)
    windows = [(-120, -60), (-120, 60), (0, 60), (0, 30)]
    harness.process([("a", (at(start), at(end)), end) for start, end in windows])
    harness.process_watermark(30 * SECOND)
    found = harness.window_states("counts")
    assert [(window.start, window.end) for _, window in sorted(found)] == [
        (-120 * SECOND, 60 * SECOND),
        (0, 60 * SECOND),
    ]


@settings(max_examples=sampled(40))
@given(
    by_window=st.booleans(),
    ordered=st.booleans(),
    retain_s=st.sampled_from([0, 45, 600]),
    due_limit=st.integers(1, 4),
    batches=st.lists(
        st.tuples(
            st.integers(0, 120),
            st.lists(
                st.tuples(st.sampled_from("abc"), st.integers(0, 12), st.integers(0, 9)),
                max_size=12,
            ),
        ),
        max_size=8,
    ),
)
def test_the_state_is_what_a_dictionary_would_be(
    by_window: bool,
    ordered: bool,
    retain_s: int,
    due_limit: int,
    batches: list[tuple[int, list[tuple[str, int, int]]]],
) -> None:
    """Of each batch: first windows that have ended go, then rows are stored."""
    harness = harness_of(
        by_window=by_window,
        latest_by="count" if ordered else None,
        retain_ms=retain_s * SECOND,
        parallelism=1,
        chunk_rows=3,
    )
    assert isinstance(harness.backend, InMemoryStateBackend)
    harness.backend.due_limit = due_limit
    model: dict[tuple[str, int], int] = {}
    watermark = 0
    for advance, rows in batches:
        watermark += advance
        harness.watermark_ms = watermark * SECOND
        model = {
            (sensor, minute): count
            for (sensor, minute), count in model.items()
            if minute * 60 + 60 + retain_s > watermark
        }
        for sensor, minute, count in rows:
            model[sensor, minute] = max(count, model.get((sensor, minute), 0)) if ordered else count
        harness.process([row(*each) for each in rows])
        assert stored(harness, by_window=by_window) == model
        assert harness.num_event_time_timers() == len(model)
