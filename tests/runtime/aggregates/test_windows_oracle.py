"""Vectorised windowed aggregations of random elements equal those of a brute-force model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.runtime.aggregates.window_model import MAX_LONG, MIN_LONG, Element, WindowModel
from tests.runtime.aggregates.windowed import rows_of, time_windows, windowed
from tests.samples import sampled

from queryable_state.streaming import OutputTag, avg_of, count_rows, max_of, min_of, sum_of
from queryable_state.wire.schema.types import Types

if TYPE_CHECKING:
    from queryable_state.streaming.testing import WindowedOperatorHarness

COLUMNS = {
    "total": sum_of("v"),
    "least": min_of("v"),
    "most": max_of("v"),
    "mean": avg_of("v"),
    "n": count_rows(),
}
LATE = OutputTag("late", Types.ROW_NAMED(["k", "t", "v"], [Types.STRING(), *[Types.LONG()] * 2]))

elements = st.tuples(
    st.sampled_from(["a", "b", "", "é"]), st.integers(-40, 40), st.none() | st.integers(-9, 9)
)


@st.composite
def programs(draw: st.DrawFn) -> tuple[WindowModel, list[tuple[int, list[Element], int, bool]]]:
    """Windows, and batches of clock, elements, parallelism and whether the batch is replayed."""
    slide = draw(st.integers(1, 12))
    model = WindowModel(
        size=draw(st.integers(1, 15)),
        slide=slide,
        offset=draw(st.integers(1 - slide, slide - 1)),
        lateness=draw(st.sampled_from([0, 0, 3, 20])),
        is_event_time=draw(st.booleans()),
    )
    clocks = sorted(draw(st.lists(st.integers(-50, 60), max_size=6)))
    batches = [
        (clock, draw(st.lists(elements, max_size=10)), draw(st.integers(1, 3)), draw(st.booleans()))
        for clock in clocks
    ]
    return model, [*batches, (MAX_LONG, [], 2, False)]


def aggregated(values: list[Any]) -> tuple[Any, ...]:
    kept = [value for value in values if value is not None]
    if not kept:
        return None, None, None, None, len(values)
    return sum(kept), min(kept), max(kept), sum(kept) / len(kept), len(values)


@settings(max_examples=sampled(40))
@given(program=programs())
def test_windows_of_random_batches_are_those_of_the_model(
    program: tuple[WindowModel, list[tuple[int, list[Element], int, bool]]],
) -> None:
    model, batches = program
    harness = windowed(
        COLUMNS,
        time_windows(model.size, model.slide, model.offset, event_time=model.is_event_time),
        lateness=model.lateness,
        late_tag=LATE,
        chunk_rows=3,
    )
    for clock, rows, parallelism, is_replayed in batches:
        harness.rescale(parallelism)
        # 0 is no watermark.
        watermark = (clock or 1) if model.is_event_time else MIN_LONG
        set_clock(harness, clock, is_event_time=model.is_event_time)
        if is_replayed:
            harness.run(rows)
        outputs = harness.process(rows)
        emitted = model.batch(rows, watermark, clock)

        wanted = [(key, start, end, *aggregated(values)) for key, start, end, values in emitted]
        assert rows_of(outputs) == sorted(wanted, key=repr)
        assert sorted(map(repr, map(tuple, harness.side_output(LATE)))) == sorted(
            map(repr, model.late)
        )
        # The state has the live windows, and each of them one timer.
        assert live_windows(harness) == set(model.windows)
        timers = harness.num_event_time_timers() + harness.num_processing_time_timers()
        assert timers == len(model.windows)
    assert live_windows(harness) == set()
    assert harness.num_event_time_timers() == harness.num_processing_time_timers() == 0


def set_clock(harness: WindowedOperatorHarness, clock: int, *, is_event_time: bool) -> None:
    if is_event_time:
        harness.watermark_ms = clock or 1
    else:
        harness.timestamp_ms = clock


def live_windows(harness: WindowedOperatorHarness) -> set[tuple[str, int]]:
    """Keys and starts of the windows with state."""
    return {(key, window.start) for key, window in harness.window_states("windows")}
