"""Listing 7-1: a flat map function with keyed state.

The job emits an alert if the temperature of a sensor differs by more than 1.7 degrees from its last
reading. The last temperature of each sensor is a `ValueState`.

    python examples/book/listing_7_1_keyed_state.py
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sensor_source import sensor_stream

from queryable_state.streaming import (
    FlatMapFunction,
    RuntimeContext,
    StreamExecutionEnvironment,
    Types,
    ValueStateDescriptor,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from queryable_state.streaming import DataStream, ValueState

ALERT = Types.TUPLE([Types.STRING(), Types.DOUBLE(), Types.DOUBLE()])


class TemperatureAlertFunction(FlatMapFunction):
    """Emits (sensor, temperature, difference) if two readings differ by more than a threshold."""

    def __init__(self, threshold: float) -> None:
        self.threshold = threshold

    def open(self, runtime_context: RuntimeContext) -> None:
        descriptor = ValueStateDescriptor("lastTemp", Types.DOUBLE())
        self.last_temperature: ValueState[float] = runtime_context.get_state(descriptor)

    def flat_map(self, value: Any) -> Iterator[tuple[str, float, float]]:
        last = self.last_temperature.value()
        if last is not None and abs(value.temperature - last) > self.threshold:
            yield value.id, value.temperature, abs(value.temperature - last)
        self.last_temperature.update(value.temperature)


def temperature_alerts(env: StreamExecutionEnvironment, rounds: int = 50) -> DataStream:
    """The alerts of the sensors."""
    sensors = sensor_stream(env, rounds).key_by("id")
    return sensors.flat_map(TemperatureAlertFunction(1.7), ALERT).uid("alerts")


def main() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.enable_checkpointing(10_000)
    temperature_alerts(env).print()
    env.execute("Generate Temperature Alerts")


if __name__ == "__main__":
    main()
