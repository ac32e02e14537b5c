"""Listing 7-4: operator list state that is split for redistribution.

The counter of listing 7-3 writes its count as ten parts, which add up to it. If a second run has
another parallelism, the parts of all subtasks are dealt out, and each subtask continues with
about the same count.

    cd examples/book
    python listing_7_4_split_list_state.py --state-dir /tmp/book --parallelism 2
    python listing_7_4_split_list_state.py --state-dir /tmp/book --parallelism 3 --rounds 100
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from sensor_source import sensor_stream

from queryable_state.streaming import (
    FlatMapFunction,
    ListCheckpointed,
    RuntimeContext,
    StreamExecutionEnvironment,
    Types,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from queryable_state.streaming import DataStream

COUNT = Types.TUPLE([Types.INT(), Types.LONG()])


class HighTemperatureCounter(FlatMapFunction, ListCheckpointed):
    """Emits (subtask, count of the subtask) for each reading above a threshold."""

    def __init__(self, threshold: float) -> None:
        self.threshold = threshold
        self.count = 0

    def open(self, runtime_context: RuntimeContext) -> None:
        self.subtask = runtime_context.get_index_of_this_subtask()

    def flat_map(self, value: Any) -> Iterator[tuple[int, int]]:
        if value.temperature > self.threshold:
            self.count += 1
            yield self.subtask, self.count

    def restore_state(self, state: list[int]) -> None:
        self.count = sum(state)

    def snapshot_state(self, checkpoint_id: int, timestamp: int) -> list[int]:
        part, rest = divmod(self.count, 10)
        return [part + 1] * rest + [part] * (10 - rest)


def high_temperature_counts(env: StreamExecutionEnvironment, rounds: int) -> DataStream:
    """The counts of all subtasks."""
    sensors = sensor_stream(env, rounds)
    return sensors.flat_map(HighTemperatureCounter(75.0), COUNT).uid("high-temperatures")


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
    env.execute("Count High Temperatures in Parts")


if __name__ == "__main__":
    main()
