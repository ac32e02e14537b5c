"""Streams connected with a broadcast stream, in Spark."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from pyspark import cloudpickle
from tests.spark.functions import READINGS

from queryable_state.client import Consistency
from queryable_state.streaming import (
    BroadcastProcessFunction,
    KeyedBroadcastProcessFunction,
    MapStateDescriptor,
    RuntimeContext,
    Types,
    ValueStateDescriptor,
)

if TYPE_CHECKING:
    from tests.spark.conftest import Connect, MakeFeed

    from queryable_state.streaming import StreamExecutionEnvironment

# Executors need not have the tests on their path.
cloudpickle.register_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call]

RULES = "name string, lower double"
ALERTS = "sensor string, name string"


def limits() -> MapStateDescriptor:
    descriptor = MapStateDescriptor("limits", Types.STRING(), Types.DOUBLE())
    descriptor.set_queryable("limits")
    return descriptor


class Alerts(KeyedBroadcastProcessFunction):
    """Stores the highest limit that a sensor has exceeded; `reset` forgets it for all sensors."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.exceeded_of = ValueStateDescriptor("exceeded", Types.DOUBLE())
        self.exceeded_of.set_queryable("exceeded")
        self.exceeded = runtime_context.get_state(self.exceeded_of)

    def process_element(self, value: Any, ctx: Any) -> Any:
        for limit in ctx.get_broadcast_state(limits()).values():
            if value.temperature > limit >= (self.exceeded.value() or 0.0):
                self.exceeded.update(limit)

    def process_broadcast_element(self, value: Any, ctx: Any) -> None:
        if value.name == "reset":
            ctx.apply_to_keyed_state(self.exceeded_of, lambda _, state: state.clear())
        else:
            ctx.get_broadcast_state(limits())[value.name] = value.lower


class Unkeyed(BroadcastProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Any:
        for name, limit in ctx.get_broadcast_state(limits()).items():
            if value.temperature > limit:
                yield value.sensor, name

    def process_broadcast_element(self, value: Any, ctx: Any) -> None:
        ctx.get_broadcast_state(limits()).put(value.name, value.lower)


SENSORS = [f"sensor_{number}" for number in range(20)]


def readings(temperature: float) -> list[dict[str, object]]:
    return [{"sensor": sensor, "temperature": temperature} for sensor in SENSORS]


def test_rules_reach_every_subtask_before_the_readings_of_their_batch(
    env: StreamExecutionEnvironment, feed: MakeFeed, connect: Connect
) -> None:
    source, rules = feed(READINGS), feed(RULES)
    rules.add({"name": "warm", "lower": 20.0}, {"name": "hot", "lower": 50.0})
    source.add(*readings(30.0))
    env.set_parallelism(2)
    stream = env.from_dataframe(source.dataframe()).key_by("sensor")
    broadcast = env.from_dataframe(rules.dataframe()).broadcast(limits())
    stream.connect(broadcast).process(Alerts(), ALERTS).uid("alerts")
    job = env.execute_async("alerts")
    job.process_all_available()
    client = connect(job)

    def exceeded(batch: int) -> list[float | None]:
        read = Consistency.at_least(batch)
        states = client.get_kv_states(job.job_id, "exceeded", SENSORS, consistency=read)
        return [None if state is None else state.value() for state in states]

    assert exceeded(0) == [20.0] * len(SENSORS)
    for subtask in range(2):
        found = client.get_operator_state(job.job_id, "limits", subtask)
        assert found.get() == {"warm": 20.0, "hot": 50.0}
    rules.add({"name": "reset", "lower": 0.0})
    job.process_all_available()
    assert exceeded(1) == [None] * len(SENSORS)
    source.add(*readings(60.0))
    job.process_all_available()
    assert exceeded(2) == [50.0] * len(SENSORS)
    job.cancel()


def test_a_stream_without_keys_is_connected_with_rules(
    env: StreamExecutionEnvironment, feed: MakeFeed
) -> None:
    source, rules = feed(READINGS), feed(RULES)
    rules.add({"name": "warm", "lower": 20.0})
    source.add(*readings(30.0))
    emitted: list[tuple[str, str]] = []
    stream = env.from_dataframe(source.dataframe())
    broadcast = env.from_dataframe(rules.dataframe()).broadcast(limits())
    alerts = stream.connect(broadcast).process(Unkeyed(), ALERTS).uid("unkeyed")
    alerts.add_sink(lambda frame, _: emitted.extend(map(tuple, frame.collect())))
    job = env.execute_async("unkeyed")
    job.process_all_available()
    job.cancel()
    assert sorted(emitted) == sorted((sensor, "warm") for sensor in SENSORS)
