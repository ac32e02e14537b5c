"""Programs with PyFlink's imports, through the alias."""

from __future__ import annotations

import sys
import textwrap
from typing import TYPE_CHECKING, Any

import pytest
from tests.spark.streams.test_streams import into

from queryable_state.streaming.compat import install_pyflink_alias
from queryable_state.streaming.compat.pyflink_alias import PyFlinkFinder

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession
    from tests.spark.conftest import Connect, MakeFeed

PROGRAM = textwrap.dedent(
    '''
    from pyflink.common import Configuration, RestartStrategies, Types
    from pyflink.datastream import (
        CheckpointingMode,
        HashMapStateBackend,
        KeyedProcessFunction,
        RuntimeContext,
        StreamExecutionEnvironment,
    )
    from pyflink.datastream.state import ValueStateDescriptor


    class Highest(KeyedProcessFunction):
        """Emits each temperature that is the highest of its sensor so far."""

        def open(self, runtime_context: RuntimeContext):
            descriptor = ValueStateDescriptor("highest", Types.DOUBLE())
            descriptor.set_queryable("highest")
            self.highest = runtime_context.get_state(descriptor)

        def process_element(self, value, ctx: KeyedProcessFunction.Context):
            highest = self.highest.value()
            if highest is None or value.temperature > highest:
                self.highest.update(value.temperature)
                yield value.sensor, value.temperature


    def declared(readings):
        configuration = Configuration()
        configuration.set_string("pipeline.name", "highest temperatures")
        env = StreamExecutionEnvironment.get_execution_environment(configuration)
        env.set_parallelism(2)
        env.set_state_backend(HashMapStateBackend())
        env.enable_checkpointing(10_000, CheckpointingMode.EXACTLY_ONCE)
        env.set_restart_strategy(RestartStrategies.no_restart())
        stream = env.from_dataframe(readings).key_by("sensor")
        output = Types.ROW_NAMED(["sensor", "temperature"], [Types.STRING(), Types.DOUBLE()])
        stream.process(Highest(), output).uid("highest").print()
        return env
    '''
)

PARKING = textwrap.dedent(
    '''
    from pyflink.common import Time, Types, WatermarkStrategy
    from pyflink.common.watermark_strategy import TimestampAssigner
    from pyflink.datastream import (
        KeyedBroadcastProcessFunction,
        KeyedCoProcessFunction,
        ProcessWindowFunction,
        StreamExecutionEnvironment,
    )
    from pyflink.datastream.state import MapStateDescriptor, ValueStateDescriptor
    from pyflink.datastream.window import EventTimeSessionWindows, TimeWindow

    EVENT = Types.TUPLE([Types.STRING(), Types.LONG()])
    FOUND = Types.TUPLE([Types.STRING(), Types.STRING(), Types.LONG()])
    LIMITS = MapStateDescriptor("limits", Types.STRING(), Types.LONG())


    class At(TimestampAssigner):
        def extract_timestamp(self, value, record_timestamp):
            return value[1]


    class Unpaid(KeyedCoProcessFunction):
        """Emits, 10 ms after it has parked, each car that has not paid."""

        def open(self, runtime_context):
            self.paid = runtime_context.get_state(ValueStateDescriptor("paid", Types.BOOLEAN()))

        def process_element1(self, value, ctx: "KeyedCoProcessFunction.Context"):
            ctx.timer_service().register_event_time_timer(ctx.timestamp() + 10)

        def process_element2(self, value, ctx: "KeyedCoProcessFunction.Context"):
            self.paid.update(True)

        def on_timer(self, timestamp: int, ctx: "KeyedCoProcessFunction.OnTimerContext"):
            return [] if self.paid.value() else [("unpaid", ctx.get_current_key(), timestamp)]


    class Overdue(KeyedBroadcastProcessFunction[str, tuple, tuple, tuple]):
        """Emits each car at the time that is broadcast for it."""

        def process_element(self, value, ctx: KeyedBroadcastProcessFunction.ReadOnlyContext):
            limit = ctx.get_broadcast_state(LIMITS).get(value[0])
            ctx.timer_service().register_event_time_timer(ctx.timestamp() + limit)

        def process_broadcast_element(self, value, ctx: KeyedBroadcastProcessFunction.Context):
            ctx.get_broadcast_state(LIMITS).put(value[0], value[1])

        def on_timer(self, timestamp: int, ctx: KeyedBroadcastProcessFunction.OnTimerContext):
            yield "overdue", ctx.get_current_key(), timestamp


    class Busy(ProcessWindowFunction[tuple, tuple, str, TimeWindow]):
        """Emits the last car of each time in which cars came, and the end of this time."""

        def process(self, key, context: ProcessWindowFunction.Context[TimeWindow], elements):
            yield "busy", next(iter(elements))[0], context.window().end


    def declared():
        env = StreamExecutionEnvironment.get_execution_environment()
        env.set_parallelism(1)
        by_time = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(At())

        def events(elements):
            return env.from_collection(elements, EVENT).assign_timestamps_and_watermarks(by_time)

        parked = events([("a", 0), ("b", 10), ("c", 40)])
        paid = events([("a", 7)])
        limits = events([("a", 100), ("b", 200), ("c", 30)])
        sessions = parked.key_by(lambda event: "all", Types.STRING()).window(
            EventTimeSessionWindows.with_gap(Time.milliseconds(20))
        )
        unpaid = (
            parked.connect(paid)
            .key_by(lambda event: event[0], lambda event: event[0])
            .process(Unpaid(), FOUND)
        )
        overdue = (
            parked.key_by(lambda event: event[0])
            .connect(limits.broadcast(LIMITS))
            .process(Overdue(), output_type=FOUND)
        )
        busy = sessions.reduce(
            lambda one, other: max(one, other, key=lambda event: event[1]),
            window_function=Busy(),
            output_type=FOUND,
        )
        return env, unpaid.union(overdue, busy)
    '''
)


@pytest.fixture
def alias() -> Iterator[None]:
    """The alias, which is removed afterwards."""
    install_pyflink_alias()
    yield
    sys.meta_path[:] = [each for each in sys.meta_path if not isinstance(each, PyFlinkFinder)]
    for name in [name for name in sys.modules if name.partition(".")[0] == "pyflink"]:
        del sys.modules[name]


def names_of(program: str) -> dict[str, Any]:
    namespace: dict[str, Any] = {"__name__": "pyflink_program"}
    exec(program, namespace)
    return namespace


@pytest.mark.usefixtures("alias")
def test_it_runs_and_its_state_is_queryable(
    feed: MakeFeed,
    connect: Connect,
    capsys: pytest.CaptureFixture[str],
) -> None:
    source = feed("sensor string, temperature double")
    env = names_of(PROGRAM)["declared"](source.dataframe())
    for temperature in (20.0, 25.0, 21.0):
        source.add({"sensor": "a", "temperature": temperature})
    job = env.execute_async()
    job.process_all_available()
    assert job.name == "highest temperatures"
    state = connect(job).get_kv_state(job.get_job_id(), "highest", "a")
    assert state.value() == 25.0
    assert capsys.readouterr().out.splitlines() == [
        "Row(sensor='a', temperature=20.0)",
        "Row(sensor='a', temperature=25.0)",
    ]
    job.cancel()


@pytest.mark.slow
@pytest.mark.usefixtures("alias")
def test_its_timers_and_windows_fire_at_the_end_of_bounded_input(spark: SparkSession) -> None:
    env, stream = names_of(PARKING)["declared"]()
    found: list[Any] = []
    stream.add_sink(into(found))
    env.execute("parking")
    assert sorted(map(tuple, found)) == [
        ("busy", "b", 30),
        ("busy", "c", 60),
        ("overdue", "a", 100),
        ("overdue", "b", 210),
        ("overdue", "c", 70),
        ("unpaid", "b", 20),
        ("unpaid", "c", 50),
    ]
