"""A job with timers, timers behind timers, and windows with late elements, over one feed."""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from typing import TYPE_CHECKING, Any

from pyspark import cloudpickle
from tests.runtime.timers import timer_model
from tests.runtime.timers.timer_model import OUTPUT, Call, ScriptedFunction

from queryable_state.streaming import (
    AggregateFunction,
    EventTimeSessionWindows,
    KeyedProcessFunction,
    OutputTag,
    ProcessWindowFunction,
    SlidingEventTimeWindows,
    Time,
    TumblingEventTimeWindows,
    Types,
    ValueStateDescriptor,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from pyspark.sql import DataFrame
    from tests.spark.feed import Feed

    from queryable_state.streaming import JobClient, RuntimeContext, StreamExecutionEnvironment

# Executors need not have the tests on their path.
for module in (sys.modules[__name__], timer_model):
    cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]

SCHEMA = "k STRING, ts TIMESTAMP, v BIGINT, calls STRING"
RESULT = "k STRING, start BIGINT, stop BIGINT, v BIGINT"
ECHO = "k STRING, at BIGINT, seen BIGINT"
LATE = OutputTag("late", SCHEMA)

DELAY_MS, TUMBLING_MS, LATENESS_MS, GAP_MS, ECHO_MS = 30, 20, 25, 12, 15
SLIDING_MS = (30, 10)
KEYS = [f"k{number}" for number in range(7)]
UIDS = ("scripted", "echo", "tumbling", "sliding", "sessions")


class Scripted(ScriptedFunction):
    """Times of the calls of an element are relative to the clocks at the element."""

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        service = ctx.timer_service()
        self.seen.update((self.seen.value() or 0) + 1)
        for call in map(Call._make, json.loads(value.calls)):
            base = ctx.timestamp() if call.is_event else service.current_processing_time()
            call._replace(at=base + call.at).make(service)
        yield self._output("element", 0, ctx)


class Echo(KeyedProcessFunction):
    """Emits how many elements it has seen, some time after each element with an event time."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.seen = runtime_context.get_state(ValueStateDescriptor("seen", Types.LONG()))

    def process_element(self, value: Any, ctx: Any) -> None:
        self.seen.update((self.seen.value() or 0) + 1)
        if ctx.timestamp() is not None:
            ctx.timer_service().register_event_time_timer(ctx.timestamp() + ECHO_MS)

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
        yield ctx.get_current_key(), timestamp, self.seen.value()


class Summed(ProcessWindowFunction):
    """Emits key, start, end and the sum of what it gets."""

    def process(self, key: str, context: Any, elements: Iterable[Any]) -> Iterable[Any]:
        window = context.window()
        values = [each if isinstance(each, int) else each.v for each in elements]
        yield key, window.start, window.end, sum(values)


class Sum(AggregateFunction):
    """The sum of the values."""

    def create_accumulator(self) -> int:
        return 0

    def add(self, value: Any, accumulator: int) -> int:
        return accumulator + int(value.v)

    def get_result(self, accumulator: int) -> int:
        return accumulator

    def merge(self, acc_a: int, acc_b: int) -> int:
        return acc_a + acc_b


def _added(one: Any, other: Any) -> tuple[Any, ...]:
    return one.k, one.ts, one.v + other.v, ""


TUMBLING = TumblingEventTimeWindows.of(Time.milliseconds(TUMBLING_MS))
SLIDING = SlidingEventTimeWindows.of(*map(Time.milliseconds, SLIDING_MS))
SESSIONS = EventTimeSessionWindows.with_gap(Time.milliseconds(GAP_MS))


def tumbling(windowed: Any) -> Any:
    """Sums of late elements, too; what is later is a side output."""
    windowed = windowed.allowed_lateness(LATENESS_MS).side_output_late_data(LATE)
    return windowed.aggregate(Sum(), Summed(), None, RESULT, queryable_name="sums")


def sliding(windowed: Any) -> Any:
    """Sums without lateness."""
    return windowed.reduce(_added, Summed(), RESULT)


def sessions(windowed: Any) -> Any:
    """Sums of all elements of a session."""
    return windowed.process(Summed(), RESULT)


class TimedJob:
    """The job; `emitted` has what each of its streams put out, by checkpoint folder and batch."""

    def __init__(self, folder: Path, source: Feed, steps: Sequence[Sequence[Call]]) -> None:
        self.folder = folder
        self.steps = steps
        self.emitted: dict[str, dict[tuple[str, int], list[Any]]] = defaultdict(dict)
        self._source = source

    def start(
        self, env: StreamExecutionEnvironment, name: str, savepoint: str | None = None
    ) -> JobClient:
        """Starts a run, whose Spark checkpoint is in the folder of this name."""
        frame = self._source.dataframe().withWatermark("ts", f"{DELAY_MS} milliseconds")
        keyed = env.from_dataframe(frame).key_by("k")
        scripted = keyed.process(Scripted(self.steps), OUTPUT).uid("scripted")
        fixed = tumbling(keyed.window(TUMBLING)).uid("tumbling")
        streams = {
            "scripted": scripted,
            "echo": scripted.key_by("key").process(Echo(), ECHO).uid("echo"),
            "tumbling": fixed,
            "late": fixed.get_side_output(LATE),
            "sliding": sliding(keyed.window(SLIDING)).uid("sliding"),
            "sessions": sessions(keyed.window(SESSIONS)).uid("sessions"),
        }
        for stream_name, stream in streams.items():

            def write(batch: DataFrame, batch_id: int, stream: str = stream_name) -> None:
                rows = [tuple(row) for row in batch.collect()]
                self.emitted[stream][name, batch_id] = rows

            stream.add_sink(write)
        return env.execute_async(
            name, checkpoint_location=str(self.folder / name), savepoint=savepoint
        )
