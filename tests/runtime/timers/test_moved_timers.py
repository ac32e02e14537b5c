"""Timers that rows of one batch register and delete."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.runtime.timers.test_on_timer import EVENT, harness_of

from queryable_state.streaming import KeyedProcessFunction, Types, ValueStateDescriptor

if TYPE_CHECKING:
    from collections.abc import Iterator

    from queryable_state.streaming import RuntimeContext
    from queryable_state.streaming.functions import Context, OnTimerContext


class Moved(KeyedProcessFunction):
    """Each element moves the timer of its key."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.at = runtime_context.get_state(ValueStateDescriptor("at", Types.LONG()))

    def process_element(self, value: Any, ctx: Context) -> None:
        timers = ctx.timer_service()
        before = self.at.value()
        if before is not None:
            timers.delete_event_time_timer(before)
        timers.register_event_time_timer(value.at)
        self.at.update(value.at)

    def on_timer(self, timestamp: int, ctx: OnTimerContext) -> Iterator[Any]:
        yield ctx.get_current_key(), ctx.time_domain().name, timestamp, 0


@pytest.mark.parametrize("shuffled", [False, True])
def test_a_timer_that_each_row_moves_is_two_changes_a_batch_and_key(shuffled: bool) -> None:
    """The batch deletes the timer of the batch before and writes the last one."""
    harness, keys = harness_of(Moved(), parallelism=1), "abcde"
    for batch in range(3):
        times = [1_000 * batch + number for number in range(100)]
        if shuffled:
            times.reverse()
        harness.process([(key, EVENT, time) for time in times for key in keys])
        assert harness.num_event_time_timers() == len(keys)
    seals = harness.backend.seals["operator", 0, 2]
    assert seals[-1].record_count == len(keys) * (1 + 2)
    last = 2_000 if shuffled else 2_099
    fired = sorted(harness.process_watermark(10_000))
    assert fired == [(key, "EVENT_TIME", last, 0) for key in keys]
