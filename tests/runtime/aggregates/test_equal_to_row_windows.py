"""Vectorised windows emit what the row operator emits that computes the same aggregates."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.runtime.aggregates.windowed import time_windows, windowed
from tests.samples import sampled

from queryable_state.streaming import AggregateFunction, count_rows, max_of, sum_of
from queryable_state.streaming.testing import WindowedOperatorHarness
from queryable_state.streaming.windows.window_functions import ProcessWindowFunction

if TYPE_CHECKING:
    from collections.abc import Iterable

    from queryable_state.streaming.windows.assigner import WindowAssigner

ROW = "k string, t bigint, v bigint"
RESULT = (
    "k string, window_start timestamp, window_end timestamp, n bigint, total bigint, top bigint"
)


class Totals(AggregateFunction):
    """Count, sum and maximum."""

    def create_accumulator(self) -> Any:
        return 0, 0, None

    def add(self, value: Any, accumulator: Any) -> Any:
        count, total, top = accumulator
        return count + 1, total + value.v, value.v if top is None else max(top, value.v)

    def get_result(self, accumulator: Any) -> tuple[int, int, int]:
        count, total, top = accumulator
        return count, total, top

    def merge(self, a: Any, b: Any) -> Any:
        raise NotImplementedError


class WithWindow(ProcessWindowFunction):
    """Emits key, start, end and the aggregates."""

    def process(self, key: str, context: Any, elements: Iterable[Any]) -> Iterable[Any]:
        window = context.window()
        for aggregates in elements:
            yield key, _instant(window.start), _instant(window.end), *aggregates


def _instant(ms: int) -> Any:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=ms)


def by_rows(assigner: WindowAssigner, lateness: int) -> WindowedOperatorHarness:
    return WindowedOperatorHarness(
        assigner,
        lambda windows: windows.allowed_lateness(lateness).aggregate(
            Totals(), WithWindow(), output_type=RESULT
        ),
        ROW,
        key_by="k",
        event_time="t",
    )


@settings(max_examples=sampled(40))
@given(
    size=st.integers(1, 12),
    slide=st.integers(1, 12),
    lateness=st.sampled_from([0, 0, 4]),
    is_event_time=st.booleans(),
    batches=st.lists(
        st.tuples(
            st.integers(-20, 60),
            st.lists(
                st.tuples(st.sampled_from("ab"), st.integers(-30, 50), st.integers(-9, 9)),
                max_size=8,
            ),
        ),
        max_size=5,
    ),
)
def test_a_batch_emits_the_last_row_of_each_window_that_the_row_operator_emits(
    *, size: int, slide: int, lateness: int, is_event_time: bool, batches: list[Any]
) -> None:
    assigner = time_windows(size, slide, 0, event_time=is_event_time)
    aggregates = {"n": count_rows(), "total": sum_of("v"), "top": max_of("v")}
    columns = windowed(aggregates, assigner, lateness=lateness)
    rows = by_rows(assigner, lateness)
    clock = 0
    for moved, elements in sorted([*batches, (10**9, [])], key=lambda batch: batch[0]):
        clock = moved or 1
        emitted = []
        for harness in (columns, rows):
            if is_event_time:
                harness.watermark_ms = clock
            else:
                harness.timestamp_ms = clock
            emitted.append(harness.process(elements))
        # A window that ends in a batch and has late elements in it is emitted for its end and then
        # for them: once by the columns, once for each of them by the row operator.
        last_of_columns, last_of_rows = (
            {tuple(row[:3]): row for row in output} for output in emitted
        )
        assert last_of_columns == last_of_rows
        if not lateness:
            assert len(emitted[0]) == len(last_of_columns)
            assert len(emitted[1]) == len(last_of_rows)
        assert len(emitted[0]) <= len(emitted[1])
        most = max(Counter(tuple(row[:3]) for row in emitted[0]).values(), default=0)
        assert most <= 2
