"""Vectorised windowed aggregations of random elements equal those of a brute-force model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.runtime.aggregates.window_model import MAX_LONG, MIN_LONG, Element, WindowModel
from tests.runtime.aggregates.windowed import rows_of, windowed

from queryable_state.streaming.stateless.output_tag import OutputTag
from queryable_state.wire.schema.types import Types

if TYPE_CHECKING:
    from queryable_state.streaming.testing import KeyedOperatorHarness

COLUMNS = (
    ("total", "sum", "v", "bigint"),
    ("least", "min", "v", "bigint"),
    ("most", "max", "v", "bigint"),
    ("mean", "avg", "v", "bigint"),
    ("n", "count", "", ""),
)
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


@settings(max_examples=60, deadline=None)
@given(program=programs())
def test_windows_of_random_batches_are_those_of_the_model(
    program: tuple[WindowModel, list[tuple[int, list[Element], int, bool]]],
) -> None:
    model, batches = program
    harness = windowed(
        *COLUMNS,
        size=model.size,
        slide=model.slide,
        offset=model.offset,
        event_time=model.is_event_time,
        lateness=model.lateness * model.is_event_time,
        chunk_rows=3,
        side_outputs=[LATE],
        late_tag=LATE,
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
        # The state has the live windows, and each of them the timer of its end.
        assert live_windows(harness) == len(model.windows)
        if not model.is_event_time:
            assert harness.num_processing_time_timers() == len(model.windows)
        elif not model.lateness:
            assert harness.num_event_time_timers() == len(model.windows)
    assert live_windows(harness) == 0
    assert harness.num_event_time_timers() == harness.num_processing_time_timers() == 0


def set_clock(harness: KeyedOperatorHarness, clock: int, *, is_event_time: bool) -> None:
    if is_event_time:
        harness.watermark_ms = clock or 1
    else:
        harness.timestamp_ms = clock


def live_windows(harness: KeyedOperatorHarness) -> int:
    backend: Any = harness.backend
    subtasks = range(harness.spec.parallelism)
    return sum(len(backend.records("operator", subtask, "window-contents")) for subtask in subtasks)
