"""Listing 7-5: keyed state and broadcast state.

A second stream sets a threshold for single sensors. Each subtask receives all updates and keeps the
thresholds in broadcast state; the job emits an alert if the temperature of a sensor differs by more
than its threshold from its last reading. A threshold of 0 removes the threshold of the sensor.

    python examples/book/listing_7_5_broadcast_state.py
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sensor_source import sensor_stream

from queryable_state.streaming import (
    KeyedBroadcastProcessFunction,
    MapStateDescriptor,
    RuntimeContext,
    StreamExecutionEnvironment,
    Types,
    ValueStateDescriptor,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from queryable_state.streaming import DataStream, ValueState

ALERT = Types.TUPLE([Types.STRING(), Types.DOUBLE(), Types.DOUBLE()])
UPDATE = Types.ROW_NAMED(["id", "threshold"], [Types.STRING(), Types.DOUBLE()])
UPDATES = [
    ("sensor_1", 5.0),
    ("sensor_2", 0.9),
    ("sensor_3", 0.5),
    ("sensor_1", 1.2),  # replaces 5.0
    ("sensor_3", 0.0),  # removes 0.5
]
THRESHOLDS = MapStateDescriptor("thresholds", Types.STRING(), Types.DOUBLE())


class UpdatableTemperatureAlertFunction(KeyedBroadcastProcessFunction):
    """Emits (sensor, temperature, difference) by the thresholds of the broadcast stream."""

    def open(self, runtime_context: RuntimeContext) -> None:
        descriptor = ValueStateDescriptor("lastTemp", Types.DOUBLE())
        self.last_temperature: ValueState[float] = runtime_context.get_state(descriptor)

    def process_broadcast_element(self, value: Any, ctx: Any) -> None:
        thresholds = ctx.get_broadcast_state(THRESHOLDS)
        if value.threshold:
            thresholds.put(value.id, value.threshold)
        else:
            thresholds.remove(value.id)

    def process_element(self, value: Any, ctx: Any) -> Iterator[tuple[str, float, float]]:
        threshold = ctx.get_broadcast_state(THRESHOLDS).get(value.id)
        last = self.last_temperature.value()
        if threshold is not None and last is not None:
            difference = abs(value.temperature - last)
            if difference > threshold:
                yield value.id, value.temperature, difference
        self.last_temperature.update(value.temperature)


def temperature_alerts(env: StreamExecutionEnvironment, rounds: int = 50) -> DataStream:
    """The alerts of the sensors that have a threshold."""
    sensors = sensor_stream(env, rounds).key_by("id")
    thresholds = env.from_collection(UPDATES, UPDATE).broadcast(THRESHOLDS)
    connected = sensors.connect(thresholds)
    return connected.process(UpdatableTemperatureAlertFunction(), ALERT).uid("alerts")


def main() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.enable_checkpointing(10_000)
    temperature_alerts(env).print()
    env.execute("Generate Temperature Alerts")


if __name__ == "__main__":
    main()
