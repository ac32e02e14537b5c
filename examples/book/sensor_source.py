"""Sensor readings, the same in every run: the source of all programs in this folder.

A reading is a row of `id`, `timestamp` (milliseconds) and `temperature`. In each round every
sensor is read once; the temperature of a sensor is a random walk with a fixed seed. More rounds
have the same first readings, so a job that is started again with more rounds continues after
those it has read.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Final, NamedTuple

from queryable_state.streaming import Types

if TYPE_CHECKING:
    from queryable_state.streaming import DataStream, StreamExecutionEnvironment

SENSORS: Final = 10
START_MS: Final = 1_600_000_000_000
ROUND_MS: Final = 100
READING: Final = Types.ROW_NAMED(
    ["id", "timestamp", "temperature"], [Types.STRING(), Types.LONG(), Types.DOUBLE()]
)


class SensorReading(NamedTuple):
    """One reading of one sensor."""

    id: str
    timestamp: int
    temperature: float


def sensor_readings(rounds: int) -> list[SensorReading]:
    """The readings of the first rounds, in the order of their timestamps."""
    walk = random.Random(7)
    temperatures = [65 + walk.gauss(0, 20) for _ in range(SENSORS)]
    readings = []
    for number in range(rounds):
        temperatures = [each + walk.gauss(0, 1) for each in temperatures]
        readings += [
            SensorReading(f"sensor_{sensor}", START_MS + number * ROUND_MS, round(temperature, 2))
            for sensor, temperature in enumerate(temperatures, start=1)
        ]
    return readings


def sensor_stream(env: StreamExecutionEnvironment, rounds: int) -> DataStream:
    """A bounded stream of the readings of the first rounds."""
    return env.from_collection(sensor_readings(rounds), READING)
