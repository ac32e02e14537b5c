"""Listing 7-3: operator list state.

The job counts, in each subtask, the readings above a threshold. The count is an operator state:
it belongs to a subtask, not to a key. A second run continues with the counts of the first one. At
a greater parallelism the lists of the old subtasks, one count each, are dealt out, so some
subtasks begin at 0.

    cd examples/book
    python listing_7_3_operator_list_state.py --state-dir /tmp/book --parallelism 2
    python listing_7_3_operator_list_state.py --state-dir /tmp/book --parallelism 3 --rounds 100
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
        return [self.count]


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
    env.execute("Count High Temperatures")


if __name__ == "__main__":
    main()
