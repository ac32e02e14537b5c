"""Listing 7-2: the alerts of listing 7-1 with `flat_map_with_state`.

A plain function gets each reading with the state of its sensor, and returns the outputs and the new
state. The state is None before the first reading.

    python examples/book/listing_7_2_flat_map_with_state.py
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sensor_source import sensor_stream

from queryable_state.streaming import StreamExecutionEnvironment, Types

if TYPE_CHECKING:
    from queryable_state.streaming import DataStream

ALERT = Types.TUPLE([Types.STRING(), Types.DOUBLE(), Types.DOUBLE()])
THRESHOLD = 1.7


def alert(reading: Any, last: float | None) -> tuple[list[tuple[str, float, float]], float]:
    """The alerts of a reading, and its temperature as the new state."""
    if last is None or abs(reading.temperature - last) <= THRESHOLD:
        return [], reading.temperature
    difference = abs(reading.temperature - last)
    return [(reading.id, reading.temperature, difference)], reading.temperature


def temperature_alerts(env: StreamExecutionEnvironment, rounds: int = 50) -> DataStream:
    """The alerts of the sensors."""
    sensors = sensor_stream(env, rounds).key_by("id")
    return sensors.flat_map_with_state(alert, Types.DOUBLE(), ALERT).uid("alerts")


def main() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.enable_checkpointing(10_000)
    temperature_alerts(env).print()
    env.execute("Generate Temperature Alerts")


if __name__ == "__main__":
    main()
