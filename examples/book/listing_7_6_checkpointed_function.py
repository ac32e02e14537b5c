"""Listing 7-6: a `CheckpointedFunction` with keyed state and operator state.

The job counts the readings above a threshold for each sensor (keyed state) and for each subtask
(operator state). A second run continues with both; at another parallelism the keyed counts follow
their sensors, and the operator counts are dealt out.

    python examples/book/listing_7_6_checkpointed_function.py --state-dir /tmp/book --parallelism 2
    python examples/book/listing_7_6_checkpointed_function.py --state-dir /tmp/book --rounds 100
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from sensor_source import sensor_stream

from queryable_state.streaming import (
    CheckpointedFunction,
    FlatMapFunction,
    ListStateDescriptor,
    StreamExecutionEnvironment,
    Types,
    ValueStateDescriptor,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from queryable_state.streaming import (
        DataStream,
        FunctionInitializationContext,
        FunctionSnapshotContext,
    )

COUNTS = Types.TUPLE([Types.STRING(), Types.LONG(), Types.LONG()])


class HighTemperatureCounter(FlatMapFunction, CheckpointedFunction):
    """Emits (sensor, count of the sensor, count of the subtask) for each high temperature."""

    def __init__(self, threshold: float) -> None:
        self.threshold = threshold

    def initialize_state(self, context: FunctionInitializationContext) -> None:
        of_sensor = ValueStateDescriptor("keyedCount", Types.LONG())
        self.of_sensor = context.get_keyed_state_store().get_state(of_sensor)
        of_subtask = ListStateDescriptor("operatorCount", Types.LONG())
        self.of_subtask = context.get_operator_state_store().get_list_state(of_subtask)
        self.count = sum(self.of_subtask.get())

    def flat_map(self, value: Any) -> Iterator[tuple[str, int, int]]:
        if value.temperature > self.threshold:
            self.count += 1
            of_sensor = (self.of_sensor.value() or 0) + 1
            self.of_sensor.update(of_sensor)
            yield value.id, of_sensor, self.count

    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        self.of_subtask.update([self.count])


def high_temperature_counts(env: StreamExecutionEnvironment, rounds: int) -> DataStream:
    """The counts of all sensors and subtasks."""
    sensors = sensor_stream(env, rounds).key_by("id")
    return sensors.flat_map(HighTemperatureCounter(75.0), COUNTS).uid("high-temperatures")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--state-dir", required=True, help="folder of the job's state")
    parser.add_argument("--parallelism", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=50, help="readings of each sensor")
    options = parser.parse_args(arguments)

    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(options.parallelism)
    env.enable_checkpointing(10_000)
    env.get_checkpoint_config().set_checkpoint_storage_dir(f"file://{options.state_dir}")
    high_temperature_counts(env, options.rounds).print()
    env.execute("Count High Temperatures by Sensor")


if __name__ == "__main__":
    main()
