"""Listing 7-11: the RocksDB state backend and its options.

The state of the job is in RocksDB on the executors' disks, and checkpoints are incremental. A
profile sets RocksDB's options for flash disks, and an options factory overrides one of them.

    python examples/book/listing_7_11_rocksdb_backend.py --state-dir /tmp/book
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from sensor_source import sensor_stream

from queryable_state.streaming import (
    PredefinedOptions,
    RocksDBStateBackend,
    StreamExecutionEnvironment,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from queryable_state.streaming import DataStream


class LargeWriteBuffers:
    """Options factory that doubles the size of the write buffers."""

    def create_options(self, current: Mapping[str, Any]) -> Mapping[str, Any]:
        size = current.get("write_buffer_bytes", 16 * 1024 * 1024)
        return {"write_buffer_bytes": 2 * size}


def rocksdb_backend(state_dir: str) -> RocksDBStateBackend:
    """A backend with incremental checkpoints below a folder, and with RocksDB's files in it."""
    backend = RocksDBStateBackend(f"file://{state_dir}/checkpoints", True)
    backend.set_db_storage_paths(f"{state_dir}/rocksdb")
    backend.set_predefined_options(PredefinedOptions.FLASH_SSD_OPTIMIZED)
    backend.set_options(f"{__name__}.{LargeWriteBuffers.__qualname__}")
    return backend


def maximum_temperatures(env: StreamExecutionEnvironment, rounds: int) -> DataStream:
    """The greatest temperature of each sensor."""
    sensors = sensor_stream(env, rounds).key_by("id")
    return sensors.aggregate_max("temperature").uid("maximum")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--state-dir", required=True, help="folder of RocksDB and the checkpoints")
    parser.add_argument("--rounds", type=int, default=50, help="readings of each sensor")
    options = parser.parse_args(arguments)

    env = StreamExecutionEnvironment.get_execution_environment()
    env.enable_checkpointing(10_000)
    env.set_state_backend(rocksdb_backend(options.state_dir))
    maximum_temperatures(env, options.rounds).print()
    env.execute("Maximum Temperatures in RocksDB")


if __name__ == "__main__":
    main()
