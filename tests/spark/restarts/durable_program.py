"""A program that counts readings durably and prints the counts; for test_drivers.

Arguments: folder of the input, folder for state. The same program started again goes on.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from pyspark import cloudpickle
from pyspark.sql import SparkSession

sys.path.insert(0, str(Path(__file__).parents[3]))

from tests.spark import functions

from queryable_state.client.blocking import QueryableStateClient
from queryable_state.streaming import StreamExecutionEnvironment

cloudpickle.register_pickle_by_value(functions)  # type: ignore[no-untyped-call]


def main(source: str, state: str) -> None:
    spark = (
        SparkSession.builder.master("local[2,4]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.queryable_state.directory", f"{state}-servers")
        .config("state.checkpoints.dir", state)
        .config("state.backend", "rocksdb")
        .config("execution.checkpointing.interval", "1 s")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("OFF")
    env = StreamExecutionEnvironment.get_execution_environment(spark)
    readings = spark.readStream.schema(functions.READINGS).option("maxFilesPerTrigger", 1)
    stream = env.from_dataframe(readings.json(source)).key_by("sensor")
    stream.process(functions.CountPerKey(), functions.COUNTS).uid("counts")
    job = env.execute_async("counting readings")
    job.process_all_available()
    host, _, port = job.proxy_address().rpartition(":")
    with QueryableStateClient(host, int(port)) as client:
        found = client.get_kv_states(job.job_id, "count", ["a", "b", "c"])
    counts = [None if state is None else state.value() for state in found]
    progress = job.query.lastProgress
    assert progress is not None
    sys.stdout.write(
        "RESULT " + json.dumps({"counts": counts, "batch": progress["batchId"]}) + "\n"
    )
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
