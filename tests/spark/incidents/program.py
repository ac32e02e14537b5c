"""A program that counts readings with checkpoints until it is killed.

Arguments: folder of the input, folder for state, folder of the servers. Prints `READY` and the
coordinator's address once it has counted what there is. The same program started again goes on.
"""

from __future__ import annotations

import sys
from pathlib import Path

from pyspark import cloudpickle
from pyspark.sql import SparkSession

sys.path.insert(0, str(Path(__file__).parents[3]))

from tests.spark import functions

from queryable_state.streaming import StreamExecutionEnvironment

cloudpickle.register_pickle_by_value(functions)  # type: ignore[no-untyped-call]


def main(source: str, state: str, servers: str) -> None:
    spark = (
        SparkSession.builder.master("local[2,4]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.queryable_state.directory", servers)
        .config("state.checkpoints.dir", state)
        .config("state.backend", "rocksdb")
        .config("execution.checkpointing.interval", "1 s")
        # Small files, too, are files that can be damaged.
        .config("state.backend.fs.memory-threshold", "0")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("OFF")
    env = StreamExecutionEnvironment.get_execution_environment(spark)
    readings = spark.readStream.schema(functions.READINGS).option("maxFilesPerTrigger", 1)
    stream = env.from_dataframe(readings.json(source)).key_by("sensor")
    stream.process(functions.CountPerKey(), functions.COUNTS).uid("counts")
    job = env.execute_async("counting readings")
    job.process_all_available()
    sys.stdout.write(f"READY {env.coordinator_address}\n")
    sys.stdout.flush()
    sys.stdin.read()
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
