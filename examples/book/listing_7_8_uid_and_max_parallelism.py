"""Listing 7-8: a unique identifier and a max parallelism for an operator.

A restarted job finds the state of an operator by its uid, also if operators were added before it.
The max parallelism is the number of key groups of the operator's state: the greatest parallelism
that the operator can ever have. Neither may change while the state is kept.

    python examples/book/listing_7_8_uid_and_max_parallelism.py --state-dir /tmp/book
"""

from __future__ import annotations

import argparse
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
    from collections.abc import Iterator, Sequence

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


def temperature_alerts(
    env: StreamExecutionEnvironment, rounds: int, max_parallelism: int = 1024
) -> DataStream:
    """The alerts of the sensors, by an operator with a uid and a max parallelism."""
    sensors = sensor_stream(env, rounds).key_by("id")
    alerts = sensors.flat_map(TemperatureAlertFunction(1.7), ALERT)
    return alerts.set_max_parallelism(max_parallelism).uid("alerts")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--state-dir", required=True, help="folder of the job's state")
    parser.add_argument("--rounds", type=int, default=50, help="readings of each sensor")
    parser.add_argument("--max-parallelism", type=int, default=1024)
    options = parser.parse_args(arguments)

    env = StreamExecutionEnvironment.get_execution_environment()
    env.enable_checkpointing(10_000)
    env.get_checkpoint_config().set_checkpoint_storage_dir(f"file://{options.state_dir}")
    temperature_alerts(env, options.rounds, options.max_parallelism).print()
    env.execute("Alerts of an Identified Operator")


if __name__ == "__main__":
    main()
