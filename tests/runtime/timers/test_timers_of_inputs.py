"""Timers of functions with two inputs and with a broadcast input, and the times of outputs."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from tests.runtime.timers.test_on_timer import EVENT, PROCESSING, Scripted

from queryable_state.streaming import (
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    MapStateDescriptor,
    TimeDomain,
    Types,
    ValueStateDescriptor,
)
from queryable_state.streaming.runtime.columns.event_time import EVENT_TIME_COLUMN
from queryable_state.streaming.testing import (
    BroadcastOperatorHarness,
    KeyedOperatorHarness,
    TwoInputOperatorHarness,
)
from queryable_state.wire.errors import InvalidRequestError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from queryable_state.streaming import RuntimeContext
    from queryable_state.streaming.operator_state.broadcast_functions import (
        KeyedBroadcastContext,
        KeyedBroadcastOnTimerContext,
        KeyedBroadcastReadOnlyContext,
    )

RULES = MapStateDescriptor("rules", Types.STRING(), Types.LONG())


class Unmatched(KeyedCoProcessFunction):
    """Emits the elements of the first input without a partner in the second within 10 ms."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.waiting = runtime_context.get_state(ValueStateDescriptor("waiting", Types.LONG()))

    def process_element1(self, value: Any, ctx: KeyedCoProcessFunction.Context) -> None:
        self.waiting.update(value.at)
        ctx.timer_service().register_event_time_timer(value.at + 10)

    def process_element2(self, value: Any, ctx: KeyedCoProcessFunction.Context) -> None:
        waiting = self.waiting.value()
        if waiting is not None:
            ctx.timer_service().delete_event_time_timer(waiting + 10)
            self.waiting.clear()

    def on_timer(
        self, timestamp: int, ctx: KeyedCoProcessFunction.OnTimerContext
    ) -> Iterator[tuple[str, int]]:
        assert ctx.time_domain() is TimeDomain.EVENT_TIME
        assert self.waiting.value() == timestamp - 10
        yield ctx.get_current_key(), timestamp
        self.waiting.clear()


def test_both_inputs_of_a_function_register_and_delete_timers_of_the_key() -> None:
    row = "key STRING, at BIGINT"
    harness = TwoInputOperatorHarness(Unmatched(), row, row, key_by=("key", "key"), output_type=row)
    harness.process([("a", 5), ("b", 5)], [])
    harness.process([], [("a", 7)])
    assert harness.num_event_time_timers() == 1
    assert harness.process_watermark(14) == []
    assert harness.process_watermark(15) == [("b", 15)]
    assert harness.states("waiting") == {}


class Limits(KeyedBroadcastProcessFunction):
    """Emits, when the processing time of a key has come, the rule of its name."""

    def process_element(self, value: Any, ctx: KeyedBroadcastReadOnlyContext) -> None:
        ctx.timer_service().register_processing_time_timer(value.at)

    def process_broadcast_element(self, value: Any, ctx: KeyedBroadcastContext) -> None:
        ctx.get_broadcast_state(RULES).put(value.key, value.at)

    def on_timer(
        self, timestamp: int, ctx: KeyedBroadcastOnTimerContext
    ) -> Iterator[tuple[str, int | None]]:
        assert ctx.time_domain() is TimeDomain.PROCESSING_TIME
        assert ctx.timestamp() == timestamp <= ctx.current_processing_time()
        limit = ctx.get_broadcast_state(RULES).get(ctx.get_current_key())
        assert limit is not None
        yield ctx.get_current_key(), limit


def broadcast_harness(function: KeyedBroadcastProcessFunction) -> BroadcastOperatorHarness:
    row = "key STRING, at BIGINT"
    return BroadcastOperatorHarness(function, [RULES], row, row, key_by="key", output_type=row)


def test_a_timer_reads_the_broadcast_state_of_earlier_batches() -> None:
    """It fires before the broadcast elements of its batch."""
    harness = broadcast_harness(Limits())
    harness.process([("a", 2_000), ("b", 2_000)], [("a", 1), ("b", 2)])
    harness.timestamp_ms = 2_000
    assert sorted(harness.process([], [("a", 100)])) == [("a", 1), ("b", 2)]


class Writing(Limits):
    def on_timer(self, timestamp: int, ctx: KeyedBroadcastOnTimerContext) -> Iterator[Any]:
        ctx.get_broadcast_state(RULES).put("a", 5)  # type: ignore[attr-defined]
        return iter(())


def test_a_timer_cannot_write_broadcast_state() -> None:
    """Timers fire on one subtask only, and the state is equal on all subtasks."""
    harness = broadcast_harness(Writing())
    harness.process([("a", 2_000)], [])
    with pytest.raises(InvalidRequestError, match="on one subtask only") as error:
        harness.set_processing_time(2_000)
    assert "PROCESSING_TIME timer of 2000 ms" in "".join(error.value.__notes__)


def _times(harness: KeyedOperatorHarness) -> list[int | None]:
    """Runs a batch without rows on every subtask; returns the event times of its outputs."""
    times = []
    for subtask in range(harness.spec.parallelism):
        for batch in harness.attempt(subtask, []):
            times += batch.column(EVENT_TIME_COLUMN).to_pylist()
    return times


@pytest.mark.parametrize(("call", "time"), [(EVENT, 10), (PROCESSING, None)])
def test_an_output_has_the_time_of_its_event_time_timer(call: str, time: int | None) -> None:
    """The output of a processing-time timer has none, as in Flink."""
    harness = KeyedOperatorHarness(
        Scripted(),
        "key STRING, call STRING, at BIGINT",
        key_by="key",
        output_type="key STRING, domain STRING, at BIGINT, total BIGINT",
    )
    harness.spec = replace(harness.spec, emits_event_time=True)
    list(harness.attempt(0, harness.partitions([])[0]))
    for subtask, part in enumerate(harness.partitions([("a", call, 10)])):
        list(harness.attempt(subtask, part))
    harness.commit()
    harness.watermark_ms = 10
    assert _times(harness) == [time]
