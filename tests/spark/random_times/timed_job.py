"""A job over one feed: timers, timers behind timers, windows with late elements, kept states of all
kinds under keys of any type, and broadcast state."""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from pyspark import cloudpickle
from tests.runtime.states import ttl_interpreter
from tests.runtime.states.ttl_interpreter import TtlInterpreter, in_list
from tests.runtime.timers import timer_model
from tests.runtime.timers.timer_model import OUTPUT, Call, ScriptedFunction
from tests.spark.random_times.timed_shape import FOR_EVER_MS

from queryable_state.streaming import (
    AggregateFunction,
    EventTimeSessionWindows,
    KeyedBroadcastProcessFunction,
    KeyedProcessFunction,
    MapStateDescriptor,
    OutputTag,
    ProcessWindowFunction,
    SlidingEventTimeWindows,
    StateTtlConfig,
    Time,
    TumblingEventTimeWindows,
    Types,
    ValueStateDescriptor,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    from pyspark.sql import DataFrame
    from tests.spark.feed import Feed
    from tests.spark.random_times.timed_shape import TimedShape

    from queryable_state.streaming import JobClient, RuntimeContext, StreamExecutionEnvironment

# Executors need not have the tests on their path.
for module in (sys.modules[__name__], timer_model, ttl_interpreter):
    cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]

_COLUMNS = "k STRING, ts TIMESTAMP, v BIGINT, calls STRING, ops STRING"
RESULT = "k STRING, start BIGINT, stop BIGINT, v BIGINT"
ECHO = "k STRING, at BIGINT, seen BIGINT"
KEPT = "k STRING, told STRING"
LIMITED = "k STRING, v BIGINT, limit BIGINT"
GROUPS = 4


def schema(shape: TimedShape) -> str:
    """The columns of the feed."""
    return f"{_COLUMNS}, {shape.typed.ddl}"


def late(shape: TimedShape) -> OutputTag:
    """The side output of elements that are too late for their windows."""
    return OutputTag("late", schema(shape))


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

    def __init__(self, after_ms: int) -> None:
        self.after_ms = after_ms

    def open(self, runtime_context: RuntimeContext) -> None:
        self.seen = runtime_context.get_state(ValueStateDescriptor("seen", Types.LONG()))

    def process_element(self, value: Any, ctx: Any) -> None:
        self.seen.update((self.seen.value() or 0) + 1)
        if ctx.timestamp() is not None:
            ctx.timer_service().register_event_time_timer(ctx.timestamp() + self.after_ms)

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


class Kept(TtlInterpreter):
    """Applies the operations of an element one after the other."""

    def process_element(self, row: Any, context: Any) -> Iterator[Any]:
        for op, arg in json.loads(row.ops):
            operation = SimpleNamespace(key=row.k, op=op, arg=arg)
            for told in super().process_element(operation, context):
                yield row.k, told


def limits() -> MapStateDescriptor[int, int]:
    """The broadcast state: the greatest value of each group that is divisible by three."""
    descriptor = MapStateDescriptor("limits", Types.LONG(), Types.LONG())
    descriptor.set_queryable("limits")
    return descriptor


class Limited(KeyedBroadcastProcessFunction):
    """Emits the limit of each element's group."""

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        yield value.k, value.v, ctx.get_broadcast_state(limits()).get(value.v % GROUPS)

    def process_broadcast_element(self, value: Any, ctx: Any) -> None:
        known = ctx.get_broadcast_state(limits())
        if value.v % 3 == 0:
            known[value.v % GROUPS] = max(value.v, known.get(value.v % GROUPS) or 0)


def kept(shape: TimedShape) -> Kept:
    """The function with kept states of a shape."""
    wanted = None
    if shape.ttl_ms < FOR_EVER_MS:
        visibility, update = StateTtlConfig.StateVisibility, StateTtlConfig.UpdateType
        wanted = (
            StateTtlConfig.new_builder(Time.milliseconds(shape.ttl_ms))
            .set_update_type(update.OnReadAndWrite if shape.on_read else update.OnCreateAndWrite)
            .set_state_visibility(
                visibility.ReturnExpiredIfNotCleanedUp
                if shape.returns_expired
                else visibility.NeverReturnExpired
            )
            .build()
        )
    return Kept(wanted, mutable=shape.mutable, queryable="kept.")


def wrapping(shape: TimedShape) -> Callable[[int], Any]:
    """Makes kept values of numbers."""
    return in_list if shape.mutable else int


def tumbling_windows(shape: TimedShape) -> TumblingEventTimeWindows:
    return TumblingEventTimeWindows.of(Time.milliseconds(shape.tumbling_ms))


def sliding_windows(shape: TimedShape) -> SlidingEventTimeWindows:
    return SlidingEventTimeWindows.of(*map(Time.milliseconds, shape.sliding_ms))


def session_windows(shape: TimedShape) -> EventTimeSessionWindows:
    return EventTimeSessionWindows.with_gap(Time.milliseconds(shape.gap_ms))


def tumbling(windowed: Any, shape: TimedShape) -> Any:
    """Sums of late elements, too; what is later is a side output."""
    windowed = windowed.allowed_lateness(shape.lateness_ms).side_output_late_data(late(shape))
    return windowed.aggregate(Sum(), Summed(), None, RESULT, queryable_name="sums")


def sliding(windowed: Any) -> Any:
    """Sums without lateness."""
    return windowed.aggregate(Sum(), Summed(), None, RESULT, queryable_name="recent")


def sessions(windowed: Any) -> Any:
    """Sums of all elements of a session."""
    return windowed.aggregate(Sum(), Summed(), None, RESULT, queryable_name="visits")


class TimedJob:
    """The job; `emitted` has what each of its streams put out, by checkpoint folder and batch."""

    def __init__(
        self, folder: Path, source: Feed, steps: Sequence[Sequence[Call]], shape: TimedShape
    ) -> None:
        self.folder = folder
        self.steps = steps
        self.shape = shape
        self.emitted: dict[str, dict[tuple[str, int], list[Any]]] = defaultdict(dict)
        self._source = source

    def start(
        self, env: StreamExecutionEnvironment, name: str, savepoint: str | None = None
    ) -> JobClient:
        """Starts a run, whose Spark checkpoint is in the folder of this name."""
        shape = self.shape
        frame = self._source.dataframe().withWatermark("ts", f"{shape.delay_ms} milliseconds")
        stream = env.from_dataframe(frame)
        keyed, typed = stream.key_by("k"), stream.key_by(*shape.typed.schema)
        scripted = keyed.process(Scripted(self.steps), OUTPUT).uid("scripted")
        fixed = tumbling(keyed.window(tumbling_windows(shape)), shape).uid("tumbling")
        limited = keyed.connect(stream.broadcast(limits()))
        streams = {
            "scripted": scripted,
            "echo": scripted.key_by("key").process(Echo(shape.echo_ms), ECHO).uid("echo"),
            "tumbling": fixed,
            "late": fixed.get_side_output(late(shape)),
            "sliding": sliding(keyed.window(sliding_windows(shape))).uid("sliding"),
            "sessions": sessions(keyed.window(session_windows(shape))).uid("sessions"),
            "kept": typed.process(kept(shape), KEPT).uid("kept"),
            "limited": limited.process(Limited(), LIMITED).uid("limited"),
        }
        for stream_name, stream in streams.items():

            def write(batch: DataFrame, batch_id: int, stream: str = stream_name) -> None:
                rows = [tuple(row) for row in batch.collect()]
                self.emitted[stream][name, batch_id] = rows

            stream.add_sink(write)
        return env.execute_async(
            name, checkpoint_location=str(self.folder / name), savepoint=savepoint
        )
