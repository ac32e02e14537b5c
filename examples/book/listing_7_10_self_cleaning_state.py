"""Listing 7-10: a function that clears the state of sensors that have gone silent.

The job emits an alert if the temperature of a sensor differs by more than 1.7 degrees from its last
reading. A timer clears the last temperature of a sensor an hour of event time after its last
reading: it is registered with each reading, and the one before is deleted.

    python examples/book/listing_7_10_self_cleaning_state.py
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sensor_source import sensor_stream

from queryable_state.streaming import (
    KeyedProcessFunction,
    RuntimeContext,
    StreamExecutionEnvironment,
    TimestampAssigner,
    Types,
    ValueStateDescriptor,
    WatermarkStrategy,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from queryable_state.streaming import DataStream, ValueState

HOUR_MS = 3_600_000
ALERT = Types.TUPLE([Types.STRING(), Types.DOUBLE(), Types.DOUBLE()])


class ReadingTime(TimestampAssigner):
    """The event time of a reading."""

    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        time: int = value.timestamp
        return time


class SelfCleaningTemperatureAlertFunction(KeyedProcessFunction):
    """Emits (sensor, temperature, difference) if two readings differ by more than a threshold."""

    def __init__(self, threshold: float) -> None:
        self.threshold = threshold

    def open(self, runtime_context: RuntimeContext) -> None:
        last = ValueStateDescriptor("lastTemp", Types.DOUBLE())
        last.set_queryable("lastTemperature")
        self.last_temperature: ValueState[float] = runtime_context.get_state(last)
        timer = ValueStateDescriptor("lastTimer", Types.LONG())
        self.last_timer: ValueState[int] = runtime_context.get_state(timer)

    def process_element(
        self, value: Any, ctx: KeyedProcessFunction.Context
    ) -> Iterator[tuple[str, float, float]]:
        timestamp = ctx.timestamp()
        assert timestamp is not None
        timers, before = ctx.timer_service(), self.last_timer.value()
        if before is not None:
            timers.delete_event_time_timer(before)
        timers.register_event_time_timer(timestamp + HOUR_MS)
        self.last_timer.update(timestamp + HOUR_MS)

        last = self.last_temperature.value()
        if last is not None and abs(value.temperature - last) > self.threshold:
            yield value.id, value.temperature, abs(value.temperature - last)
        self.last_temperature.update(value.temperature)

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> None:
        self.last_temperature.clear()
        self.last_timer.clear()


def temperature_alerts(env: StreamExecutionEnvironment, rounds: int = 50) -> DataStream:
    """The alerts of the sensors."""
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(ReadingTime())
    readings = sensor_stream(env, rounds).assign_timestamps_and_watermarks(strategy)
    alerts = readings.key_by("id").process(SelfCleaningTemperatureAlertFunction(1.7), ALERT)
    return alerts.uid("alerts")


def main() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.enable_checkpointing(10_000)
    temperature_alerts(env).print()
    env.execute("Generate Temperature Alerts")


if __name__ == "__main__":
    main()
