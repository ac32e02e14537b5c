"""Windows equal a brute-force model on any input, for any batches, restarts and parallelism."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.runtime.windows.window_model import (
    FixedWindows,
    ProcessingTimeWindows,
    Sessions,
    span_of,
    windows_over,
)
from tests.samples import sampled

from queryable_state.streaming import (
    AggregateFunction,
    EventTimeSessionWindows,
    OutputTag,
    ProcessWindowFunction,
    SessionWindowTimeGapExtractor,
    SlidingEventTimeWindows,
    SlidingProcessingTimeWindows,
    Time,
    TumblingEventTimeWindows,
)
from queryable_state.streaming.runtime.states.settings import RuntimeSettings
from queryable_state.streaming.testing import InMemoryStateBackend, WindowedOperatorHarness

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

ROW = "k STRING, ts BIGINT, v BIGINT"
RESULT = "k STRING, start BIGINT, stop BIGINT, v BIGINT"
LATE = OutputTag("late", ROW)


@dataclass(frozen=True)
class Batch:
    """A batch, and what happens to the job before it."""

    rows: Sequence[tuple[str, int, int]]
    clock_step: int
    """How far the clock of the windows moves."""
    is_replayed: bool
    parallelism: int
    """0: no restart before the batch."""
    is_restored: bool
    """A restart restores a snapshot into a new harness, else it rescales the old one."""


_ROWS = st.lists(
    st.tuples(st.sampled_from("abc"), st.integers(0, 40), st.integers(1, 8)), max_size=8
)
_BATCHES = st.lists(
    st.builds(
        Batch,
        _ROWS,
        st.integers(0, 15),
        st.booleans(),
        st.sampled_from([0, 0, 1, 2, 3]),
        st.booleans(),
    ),
    max_size=6,
)


def _value(element: Any) -> int:
    return int(element if isinstance(element, int) else element.v)


class Summed(ProcessWindowFunction):
    """Emits key, start, end and the sum of what it gets."""

    def process(self, key: str, context: Any, elements: Iterable[Any]) -> Iterable[Any]:
        window = context.window()
        yield key, window.start, window.end, sum(map(_value, elements))


class Sum(AggregateFunction):
    """The sum of the values, in a list of one element that is changed in place."""

    def create_accumulator(self) -> list[int]:
        return [0]

    def add(self, value: Any, accumulator: list[int]) -> list[int]:
        accumulator[0] += value.v
        return accumulator

    def get_result(self, accumulator: list[int]) -> int:
        return accumulator[0]

    def merge(self, acc_a: list[int], acc_b: list[int]) -> list[int]:
        acc_b[0] += acc_a[0]
        return acc_b


def _added(one: Any, other: Any) -> tuple[str, int, int]:
    return one.k, one.ts, one.v + other.v


_OPERATORS: dict[str, Callable[[Any], Any]] = {
    "process": lambda windowed: windowed.process(Summed(), RESULT),
    "reduce": lambda windowed: windowed.reduce(_added, Summed(), RESULT),
    "aggregate": lambda windowed: windowed.aggregate(Sum(), Summed(), None, RESULT),
}


class _Job:
    """An operator of windows that is run, replayed and restarted."""

    def __init__(self, assigner: Any, kind: str, lateness: int, *, by_watermark: bool) -> None:
        self._assigner = assigner
        self._operator = _OPERATORS[kind]
        self._lateness = lateness
        self._by_watermark = by_watermark
        self.clock = 1
        self.late: list[tuple[Any, ...]] = []
        self.harness = self._new(2)

    def _new(self, parallelism: int) -> WindowedOperatorHarness:
        backend = InMemoryStateBackend()
        backend.due_limit = 3
        return WindowedOperatorHarness(
            self._assigner,
            lambda windowed: self._operator(
                windowed.allowed_lateness(self._lateness).side_output_late_data(LATE)
            ),
            ROW,
            key_by="k",
            event_time="ts",
            side_outputs=[LATE],
            parallelism=parallelism,
            chunk_rows=3,
            settings=RuntimeSettings(fetch_keys=3, output_rows=2),
            owner=backend,
        )

    def run(self, batch: Batch) -> list[tuple[Any, ...]]:
        if batch.parallelism and self.harness.batch_id:
            if batch.is_restored:
                snapshot = self.harness.snapshot()
                self.harness = self._new(batch.parallelism)
                self.harness.restore(snapshot)
            else:
                self.harness.rescale(batch.parallelism)
        self.clock += batch.clock_step
        if self._by_watermark:
            self.harness.watermark_ms = self.clock
        else:
            self.harness.timestamp_ms = self.clock
        if batch.is_replayed:
            self.harness.run(batch.rows)
        outputs = self.harness.process(batch.rows)
        self.late += map(tuple, self.harness.side_output(LATE))
        return sorted(map(tuple, outputs))


_DEFAULT = settings(max_examples=sampled(50))


@_DEFAULT
@given(
    _BATCHES,
    st.sampled_from(sorted(_OPERATORS)),
    st.sampled_from([(10, 10, 0), (7, 7, -3), (10, 5, 0), (9, 4, 2), (3, 5, 1)]),
    st.sampled_from([0, 0, 5, 30]),
)
def test_tumbling_and_sliding_windows_of_event_time(
    batches: list[Batch], kind: str, shape: tuple[int, int, int], lateness: int
) -> None:
    size, slide, offset = shape
    times = [Time.milliseconds(each) for each in shape]
    assigner: Any = (
        TumblingEventTimeWindows.of(times[0], times[2])
        if size == slide
        else SlidingEventTimeWindows.of(*times)
    )
    job = _Job(assigner, kind, lateness, by_watermark=True)
    model = FixedWindows(size, slide, offset, lateness)
    for batch in batches:
        outputs = job.run(batch)
        assert outputs == sorted(model.batch(job.clock, batch.rows))
        live = job.harness.window_states("window-contents")
        assert {(key, window.start, window.end) for key, window in live} == model.live()
    assert sorted(job.late) == sorted(model.late)


class _ByValue(SessionWindowTimeGapExtractor):
    def extract(self, element: Any) -> int:
        return int(element.v)


@_DEFAULT
@given(
    _BATCHES,
    st.sampled_from(sorted(_OPERATORS)),
    st.sampled_from([0, 2, 5]),
    st.sampled_from([0, 0, 4, 20]),
)
def test_sessions_of_event_time(batches: list[Batch], kind: str, gap: int, lateness: int) -> None:
    """With a gap of 0 each element has its own: its value."""
    assigner: Any = (
        EventTimeSessionWindows.with_gap(Time.milliseconds(gap))
        if gap
        else EventTimeSessionWindows.with_dynamic_gap(_ByValue())
    )
    job = _Job(assigner, kind, lateness, by_watermark=True)
    model = Sessions((lambda _: gap) if gap else (lambda value: value), lateness)
    for batch in batches:
        assert job.run(batch) == sorted(model.batch(job.clock, batch.rows))
        if job.harness.batch_id:
            live = {
                (key, *span_of(each)) for key, sessions in model.alive.items() for each in sessions
            }
            kept = job.harness.window_states("window-contents")
            assert {(key, window.start, window.end) for key, window in kept} == live
            mappings = job.harness.states("merging-window-set").values()
            assert all(window == under for each in mappings for window, under in each.items())
            assert sum(map(len, mappings)) == len(live)
    assert sorted(job.late) == sorted(model.late)


@_DEFAULT
@given(
    _BATCHES,
    st.sampled_from(sorted(_OPERATORS)),
    st.sampled_from([(10, 10, 0), (10, 4, 1), (1, 1, 0)]),
)
def test_windows_of_processing_time(
    batches: list[Batch], kind: str, shape: tuple[int, int, int]
) -> None:
    assigner = SlidingProcessingTimeWindows.of(*map(Time.milliseconds, shape))
    job = _Job(assigner, kind, 0, by_watermark=False)
    model = ProcessingTimeWindows(lambda now: windows_over(now, *shape))
    for batch in batches:
        assert job.run(batch) == sorted(model.batch(job.clock, batch.rows))
        live = job.harness.window_states("window-contents")
        assert {(key, window.start, window.end) for key, window in live} == set(model.kept)
    assert job.harness.num_event_time_timers() == 0
