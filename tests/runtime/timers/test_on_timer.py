"""Timers of keyed functions: what fires when, what a timer sees, and what it emits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from queryable_state.streaming import (
    KeyedProcessFunction,
    OutputTag,
    TimeDomain,
    Types,
    ValueStateDescriptor,
)
from queryable_state.streaming.testing import KeyedOperatorHarness

if TYPE_CHECKING:
    from collections.abc import Iterator

    from queryable_state.streaming import RuntimeContext
    from queryable_state.streaming.functions import Context, OnTimerContext

FIRED = "key STRING, domain STRING, at BIGINT, total BIGINT"
LATE = OutputTag("late", Types.STRING())
_MIN = -(1 << 63)


class Scripted(KeyedProcessFunction):
    """Each row is a call of the timer service; each timer emits its key, clock, time and the sum
    of the times in the calls of its key so far. A timer at 77 or above calls itself again."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.total = runtime_context.get_state(ValueStateDescriptor("total", Types.LONG()))

    def process_element(self, value: Any, ctx: Context) -> None:
        self.total.update((self.total.value() or 0) + value.at)
        getattr(ctx.timer_service(), f"{value.call}_time_timer")(value.at)

    def on_timer(self, timestamp: int, ctx: OnTimerContext) -> Iterator[Any]:
        assert ctx.timestamp() == timestamp
        yield ctx.get_current_key(), ctx.time_domain().name, timestamp, self.total.value()
        if timestamp >= 77:
            ctx.timer_service().register_event_time_timer(timestamp + 1)


def harness_of(function: KeyedProcessFunction | None = None, **options: Any) -> Any:
    defaults: dict[str, Any] = {"key_by": "key", "output_type": FIRED}
    return KeyedOperatorHarness(
        function or Scripted(), "key STRING, call STRING, at BIGINT", **defaults | options
    )


EVENT, PROCESSING = "register_event", "register_processing"


def test_an_event_time_timer_fires_once_when_the_watermark_reaches_it() -> None:
    harness = harness_of()
    assert harness.process([("a", EVENT, 10)]) == []
    assert harness.process_watermark(9) == []
    assert harness.process_watermark(10) == [("a", "EVENT_TIME", 10, 10)]
    assert harness.process_watermark(11) == []


def test_a_processing_time_timer_fires_once_when_the_batch_time_reaches_it() -> None:
    harness = harness_of()
    assert harness.process([("a", PROCESSING, 2_000)]) == []
    assert harness.set_processing_time(1_999) == []
    assert harness.set_processing_time(2_000) == [("a", "PROCESSING_TIME", 2_000, 2_000)]
    assert harness.set_processing_time(3_000) == []


def test_a_timer_of_a_row_fires_in_the_next_batch_though_it_is_due() -> None:
    harness = harness_of()
    harness.watermark_ms = 50
    assert harness.process([("a", EVENT, 10), ("a", PROCESSING, 10)]) == []
    assert harness.process([]) == [
        ("a", "PROCESSING_TIME", 10, 20),
        ("a", "EVENT_TIME", 10, 20),
    ]


def test_timers_fire_before_the_rows_of_their_batch() -> None:
    """They see the state that the rows of earlier batches have left."""
    harness = harness_of()
    harness.process([("a", EVENT, 10)])
    harness.watermark_ms = 10
    assert harness.process([("a", EVENT, 30)]) == [("a", "EVENT_TIME", 10, 10)]
    assert harness.state("total", "a") == 40


def test_timers_of_a_key_fire_in_time_order_and_processing_time_first() -> None:
    harness = harness_of(parallelism=1)
    harness.process(
        [("a", EVENT, 30), ("a", EVENT, 10), ("b", EVENT, 20), ("a", PROCESSING, 1_500)]
    )
    harness.watermark_ms = 100
    fired = harness.set_processing_time(1_500)
    assert [row[:3] for row in fired] == [
        ("a", "PROCESSING_TIME", 1_500),
        ("a", "EVENT_TIME", 10),
        ("b", "EVENT_TIME", 20),
        ("a", "EVENT_TIME", 30),
    ]


def test_a_timer_registered_twice_fires_once() -> None:
    harness = harness_of()
    harness.process([("a", EVENT, 10), ("a", EVENT, 10)])
    harness.process([("a", EVENT, 10)])
    assert harness.num_event_time_timers() == 1
    assert harness.process_watermark(10) == [("a", "EVENT_TIME", 10, 30)]


def test_timers_of_two_keys_or_two_clocks_are_two() -> None:
    harness = harness_of()
    harness.process([("a", EVENT, 10), ("b", EVENT, 10), ("a", PROCESSING, 10_000)])
    assert harness.num_event_time_timers() == 2
    assert harness.num_processing_time_timers() == 1


def test_a_deleted_timer_does_not_fire() -> None:
    harness = harness_of()
    harness.process([("a", EVENT, 10), ("a", EVENT, 11), ("a", PROCESSING, 2_000)])
    harness.process([("a", "delete_event", 10), ("a", "delete_processing", 2_000)])
    harness.watermark_ms = 100
    assert [row[2] for row in harness.set_processing_time(9_000)] == [11]
    assert harness.num_processing_time_timers() == 0


def test_deleting_a_timer_that_is_not_pending_has_no_effect() -> None:
    harness = harness_of()
    harness.process([("a", EVENT, 10), ("b", "delete_event", 10), ("a", "delete_event", 9)])
    assert len(harness.process_watermark(10)) == 1


def test_a_due_timer_that_a_timer_registers_fires_in_the_same_batch() -> None:
    """One that is not due stays pending."""
    harness = harness_of()
    harness.process([("a", EVENT, 77)])
    assert [row[2] for row in harness.process_watermark(79)] == [77, 78, 79]
    assert harness.num_event_time_timers() == 1


def test_a_timer_fires_without_rows_in_a_subtask_that_never_had_the_key_in_memory() -> None:
    harness = harness_of(parallelism=4)
    harness.process([(f"key {number}", EVENT, number) for number in range(20)])
    fired = harness.process_watermark(19)
    assert sorted(row[2] for row in fired) == list(range(20))
    assert {row[0] for row in fired} == {f"key {number}" for number in range(20)}


def test_a_replayed_batch_fires_the_same_timers() -> None:
    harness = harness_of()
    harness.process([("a", EVENT, 10), ("a", EVENT, 77)])
    harness.watermark_ms = 100
    first = harness.run([("a", EVENT, 300)])
    assert harness.run([("a", EVENT, 300)]) == first
    harness.commit()
    assert harness.process_watermark(101) == [("a", "EVENT_TIME", 101, 387)]


def test_timers_survive_a_restart_at_another_parallelism() -> None:
    harness = harness_of(parallelism=3)
    harness.process([(key, EVENT, 10) for key in "abcdef"] + [("a", PROCESSING, 2_000)])
    harness.rescale(2)
    restored = harness_of(parallelism=5)
    restored.restore(harness.snapshot())
    assert restored.num_event_time_timers() == 6
    assert restored.num_processing_time_timers() == 1
    assert sorted(row[0] for row in restored.process_watermark(10)) == list("abcdef")


def test_processing_time_timers_of_a_job_that_was_down_fire_at_its_start_in_order() -> None:
    harness = harness_of(parallelism=1)
    harness.process([("a", PROCESSING, at) for at in (3_000, 2_000, 4_000)])
    restarted = harness_of(parallelism=1)
    restarted.restore(harness.snapshot())
    assert [row[2] for row in restarted.set_processing_time(1_000_000)] == [2_000, 3_000, 4_000]


def test_the_timers_of_a_batch_are_read_in_pages_and_their_state_once_a_page() -> None:
    keys = 40
    harness = harness_of(parallelism=1)
    harness.backend.due_limit = 10
    harness.process([(f"key {number:02}", EVENT, 10) for number in range(keys)])
    harness.backend.fetches.clear()
    fired = harness.process_watermark(10)
    assert sorted(row[0] for row in fired) == [f"key {number:02}" for number in range(keys)]
    fetches = harness.backend.fetches
    assert [len(fetch.keys) for fetch in fetches if not fetch.HasField("due")] == [10, 30]


def test_a_batch_in_which_no_timer_is_due_reads_nothing_for_them() -> None:
    harness = harness_of()
    harness.process([("a", EVENT, 10)])
    harness.backend.fetches.clear()
    assert harness.process_watermark(5) == []
    assert harness.backend.fetches == []


class Clocks(KeyedProcessFunction):
    """Emits the clocks that an element or a timer sees."""

    def process_element(self, value: Any, ctx: Context) -> Iterator[Any]:
        service = ctx.timer_service()
        service.register_event_time_timer(value.at)
        yield "element", ctx.current_watermark(), service.current_processing_time(), value.at

    def on_timer(self, timestamp: int, ctx: OnTimerContext) -> Iterator[Any]:
        service = ctx.timer_service()
        assert ctx.current_watermark() == service.current_watermark()
        yield "timer", service.current_watermark(), service.current_processing_time(), timestamp


def test_the_watermark_is_the_least_number_before_the_first_one() -> None:
    output = "what STRING, watermark BIGINT, now BIGINT, at BIGINT"
    harness = harness_of(Clocks(), output_type=output)
    assert harness.process([("a", "", 5)]) == [("element", _MIN, 1_000, 5)]
    assert harness.process_watermark(7) == [("timer", 7, 1_000, 5)]


class Tagged(KeyedProcessFunction):
    def process_element(self, value: Any, ctx: Context) -> None:
        getattr(ctx.timer_service(), f"{value.call}_time_timer")(value.at)

    def on_timer(self, timestamp: int, ctx: OnTimerContext) -> list[Any]:
        return [timestamp, (LATE, f"{ctx.get_current_key()} at {timestamp}")]


def test_a_timer_emits_side_outputs() -> None:
    harness = harness_of(Tagged(), output_type="bigint", side_outputs=[LATE])
    harness.process([("a", EVENT, 10)])
    assert harness.process_watermark(10) == [10]
    assert harness.side_output(LATE) == ["a at 10"]


def test_many_timers_emit_many_outputs_and_side_outputs() -> None:
    harness = harness_of(Tagged(), output_type="bigint", side_outputs=[LATE], parallelism=1)
    harness.process([("a", EVENT, at) for at in range(25_000)])
    assert harness.process_watermark(25_000) == list(range(25_000))
    assert harness.side_output(LATE) == [f"a at {at}" for at in range(25_000)]


class TwoColumns(KeyedProcessFunction):
    def process_element(self, value: Any, ctx: Context) -> None:
        ctx.timer_service().register_event_time_timer(value.at)

    def on_timer(self, timestamp: int, ctx: OnTimerContext) -> Iterator[Any]:
        key = ctx.get_current_key()
        yield key.key, key.call, timestamp


def test_a_key_of_several_columns_is_the_timers_key() -> None:
    harness = harness_of(
        TwoColumns(),
        key_by=["key", "call"],
        output_type="key STRING, call STRING, at BIGINT",
    )
    harness.process([("a", "x", 5), ("a", "y", 5)])
    assert sorted(harness.process_watermark(5)) == [("a", "x", 5), ("a", "y", 5)]


def test_a_function_without_on_timer_has_no_timers() -> None:
    class Plain(KeyedProcessFunction):
        def process_element(self, value: Any, ctx: Context) -> None: ...

    harness = harness_of(Plain(), output_type="int")
    harness.process([("a", "", 5)])
    assert harness.num_event_time_timers() == 0
    assert harness.num_processing_time_timers() == 0


def test_the_harness_counts_no_timers_before_the_first_batch() -> None:
    assert harness_of().num_event_time_timers() == 0


@pytest.mark.parametrize(("name", "number"), [("EVENT_TIME", 0), ("PROCESSING_TIME", 1)])
def test_the_time_domains_are_flinks(name: str, number: int) -> None:
    assert TimeDomain[name].value == number
