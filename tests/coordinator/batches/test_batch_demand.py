"""The rule by which a query with timers gets batches without input."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from queryable_state.server.coordinator.batches.marker_batches import Demand, LastBatch
from queryable_state.wire.event_time import END_OF_TIME

if TYPE_CHECKING:
    from collections.abc import Sequence

NOW = 1_000


def last(
    *watermarks: int,
    had_input: bool = False,
    depth: int = 0,
    processing: int | None = None,
    event: int | None = None,
) -> LastBatch:
    return LastBatch(
        had_input=had_input,
        watermarks_ms=watermarks,
        depth=depth,
        next_timers_ms=(processing, event),
    )


def test_a_query_without_timers_gets_no_batch() -> None:
    assert last(0).demand(NOW, ends=False) is Demand.NONE
    assert last(500, 400, had_input=True, depth=1).demand(NOW, ends=False) is Demand.NONE


def test_a_processing_time_timer_gets_a_batch_once_it_is_due() -> None:
    assert last(0, processing=NOW + 1).demand(NOW, ends=False) is Demand.NONE
    assert last(0, processing=NOW).demand(NOW, ends=False) is Demand.BATCH


def test_input_may_move_the_watermark_to_a_pending_event_time_timer() -> None:
    assert last(0, had_input=True, event=7_000).demand(NOW, ends=False) is Demand.BATCH
    assert last(0, event=7_000).demand(NOW, ends=False) is Demand.NONE


def test_deep_operators_get_batches_until_they_have_seen_the_watermark() -> None:
    def seen(*watermarks: int) -> Demand:
        return last(*watermarks, depth=2, event=50).demand(NOW, ends=False)

    assert seen(90, 10, 10) is Demand.BATCH
    assert seen(90, 90, 10) is Demand.BATCH
    assert seen(90, 90, 90) is Demand.NONE


def test_a_watermark_before_the_first_timer_gets_no_more_batches() -> None:
    assert last(40, 10, depth=1, event=50).demand(NOW, ends=False) is Demand.NONE


def test_a_query_that_ends_gets_the_end_of_time_at_every_depth() -> None:
    def seen(*watermarks: int, had_input: bool = False) -> Demand:
        return last(*watermarks, had_input=had_input, depth=1).demand(NOW, ends=True)

    assert seen(0, had_input=True) is Demand.BATCH
    assert seen(5, 0) is Demand.END_OF_TIME
    assert seen(END_OF_TIME, 5, 0) is Demand.END_OF_TIME
    assert seen(END_OF_TIME, END_OF_TIME, 5) is Demand.NONE


def _run(inputs: Sequence[int], depth: int, timers: Sequence[int], *, ends: bool) -> list[int]:
    """The watermarks of all batches of a query; each input has its greatest timestamp. Timers fire
    at the deepest operator."""
    watermarks: list[int] = []
    watermark, pending, left = 0, sorted(timers), list(inputs)
    asked = Demand.BATCH
    while left or asked is not Demand.NONE:
        assert len(watermarks) <= len(inputs) * (depth + 2) + depth + 3, "batches without end"
        had_input = bool(left)
        watermarks.append(END_OF_TIME if asked is Demand.END_OF_TIME else watermark)
        if left:
            watermark = max(watermark, left.pop(0))
        seen = watermarks[-1 - depth] if len(watermarks) > depth else 0
        pending = [timer for timer in pending if timer > seen]
        asked = last(
            *reversed(watermarks),
            had_input=had_input,
            depth=depth,
            event=min(pending, default=None),
        ).demand(NOW, ends=ends)
    return watermarks


@given(
    st.lists(st.integers(1, 9), min_size=1, max_size=5),
    st.integers(0, 3),
    st.lists(st.integers(1, 9), max_size=4),
    st.booleans(),
)
def test_batches_end_after_the_last_timer_that_the_watermark_reaches(
    inputs: list[int], depth: int, timers: list[int], ends: bool
) -> None:
    watermarks = _run(inputs, depth, timers, ends=ends)
    seen = watermarks[-1 - depth] if len(watermarks) > depth else 0
    reached = END_OF_TIME if ends else max(inputs)
    assert all(timer <= seen for timer in timers if timer <= reached)
