"""The program of a round's driver: started anew after each kill, always with the same arguments.

It starts the job, says in FOLDER/driver.json which processes and which job it is, and runs until
it is told to end by SIGTERM; then it ends in order. It fails when the job does.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import threading
from pathlib import Path

from pyspark import cloudpickle
from pyspark.sql import SparkSession
from tests.chaos import functions
from tests.chaos.workload import JOB_NAME, SCHEMA

from queryable_state.streaming import StreamExecutionEnvironment

# Executors have not this repository on their path.
cloudpickle.register_pickle_by_value(functions)  # type: ignore[no-untyped-call]

_POLL_S = 0.1


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--master", required=True)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--conf", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("--checkpoint-location", help="of Spark; without it, where our root has it")
    parser.add_argument("--output", help="write every row there, by a query started here")
    options = parser.parse_args()

    told = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: told.set())
    builder = SparkSession.builder.master(options.master).appName(JOB_NAME)
    for setting in options.conf:
        name, _, value = setting.partition("=")
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("WARN")
    env = StreamExecutionEnvironment.get_execution_environment(spark)
    rows = env.from_dataframe(
        spark.readStream.schema(SCHEMA)
        .option("maxFilesPerTrigger", 1)
        .json(str(options.folder / "input"))
    )
    if options.output:
        query = (
            functions.build_rows(rows)
            .to_dataframe()
            .writeStream.format("json")
            .queryName(JOB_NAME)
            .option("checkpointLocation", options.checkpoint_location)
            .start(options.output)
        )
    else:
        functions.build(rows)
        query = env.execute_async(JOB_NAME, checkpoint_location=options.checkpoint_location).query
    gateway = spark.sparkContext._gateway
    assert gateway is not None
    write_json(
        options.folder / "driver.json",
        {
            "pid": os.getpid(),
            "jvm_pid": gateway.proc.pid,
            "application_id": spark.sparkContext.applicationId,
            "query_id": str(query.id),
        },
    )
    while not told.wait(_POLL_S):
        if not query.isActive:
            query.awaitTermination()
            raise SystemExit("the query has ended by itself")
    query.stop()
    env.close()
    spark.stop()


def write_json(path: Path, content: dict[str, object]) -> None:
    """Writes a file that nobody sees half of."""
    draft = path.with_suffix(".draft")
    draft.write_text(json.dumps(content))
    draft.rename(path)


if __name__ == "__main__":
    main()
