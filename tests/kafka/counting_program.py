"""A job that counts the numbers of a Kafka topic; for the tests that kill it or savepoint it.

It runs until it is killed or fails. With `--finish` it processes what the topic has, prints what
its state and its sink hold as JSON, and ends. With `--savepoint-to` it ends by a savepoint.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark import cloudpickle
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.kafka import count_functions
from tests.kafka.topic_numbers import KEYS

from queryable_state.client.blocking import QueryableStateClient
from queryable_state.streaming import StreamExecutionEnvironment
from queryable_state.streaming.testing.kafka import connector_jars

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

cloudpickle.register_pickle_by_value(count_functions)  # type: ignore[no-untyped-call]


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("servers", help="HOST:PORT of the broker")
    parser.add_argument("state", help="folder for state")
    parser.add_argument("--topic", default="numbers")
    parser.add_argument("--sink", choices=("kafka", "files"), default="kafka")
    parser.add_argument("--starting-offsets", default="earliest")
    parser.add_argument("--source-option", action="append", default=[], help="NAME=VALUE")
    parser.add_argument("--backend", choices=("heap", "rocksdb"), default="rocksdb")
    parser.add_argument("--parallelism", type=int, default=2)
    parser.add_argument("--name", default="counting")
    parser.add_argument("--savepoint", help="URI to start from")
    parser.add_argument("--savepoint-to", help="folder for a savepoint, with which the job ends")
    parser.add_argument("--running", action="store_true", help="the savepoint does not stop it")
    parser.add_argument("--finish", action="store_true")
    return parser.parse_args()


def session(state: str, backend: str) -> SparkSession:
    spark = (
        SparkSession.builder.master("local[2,4]")
        .config("spark.jars", connector_jars())
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.queryable_state.directory", f"{state}-servers")
        .config("spark.queryable_state.state.checkpoints.dir", state)
        .config("spark.queryable_state.state.backend", backend)
        .config("spark.queryable_state.execution.checkpointing.interval", "2 s")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("OFF")
    return spark


def numbers(spark: SparkSession, options: argparse.Namespace) -> DataFrame:
    """Rows of key and number; a batch has at most 2,000."""
    records = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", options.servers)
        .option("subscribe", options.topic)
        .option("startingOffsets", options.starting_offsets)
        .option("maxOffsetsPerTrigger", 2_000)
        .options(**dict(each.split("=", 1) for each in options.source_option))
        .load()
    )
    return records.select(
        F.col("key").cast("string"), F.col("value").cast("string").cast("long").alias("number")
    )


def started(
    env: StreamExecutionEnvironment, spark: SparkSession, options: argparse.Namespace
) -> tuple[Any, StreamingQuery, str]:
    """Starts the job; the handle to await, its query, and the id of the job."""
    keyed = env.from_dataframe(numbers(spark, options)).key_by("key", order_by=None)
    counted = keyed.process(count_functions.TimesOfNumbers(), count_functions.COUNTED).uid("times")
    if options.sink == "files":
        query = (
            counted.to_dataframe()
            .writeStream.format("parquet")
            .option("path", f"{options.state}/counted")
            .option("checkpointLocation", f"{options.state}/checkpoint")
            .start()
        )
        return query, query, query.id.replace("-", "")

    def write(batch: DataFrame, batch_id: int) -> None:
        records = batch.selectExpr("key", "to_json(struct(number, times)) AS value").write
        to = records.format("kafka").option("kafka.bootstrap.servers", options.servers)
        to.option("topic", f"{options.topic}-counted").save()

    counted.add_sink(write)
    job = env.execute_async(options.name, savepoint=options.savepoint)
    return job, job.query, job.job_id


def main() -> None:
    options = arguments()
    spark = session(options.state, options.backend)
    env = StreamExecutionEnvironment.get_execution_environment(spark)
    env.set_parallelism(options.parallelism)
    handle, query, job_id = started(env, spark, options)
    print("STARTED", job_id, env.proxy_address(), flush=True)  # noqa: T201 - for the test
    found: dict[str, Any] = {}
    if options.savepoint_to and options.running:
        found["savepoint"] = handle.trigger_savepoint(options.savepoint_to).result()
    elif options.savepoint_to:
        handle.process_all_available()
        found["savepoint"] = handle.stop_with_savepoint(False, options.savepoint_to).result()
    elif not options.finish:
        # pyspark's StreamingQuery and our JobClient name it differently.
        (handle.awaitTermination if handle is query else handle.await_termination)()
    else:
        (handle.processAllAvailable if handle is query else handle.process_all_available)()
        host, _, port = env.proxy_address().rpartition(":")
        with QueryableStateClient(host, int(port)) as client:
            states = client.get_kv_states(job_id, "times", KEYS)
        found["state"] = {
            number: times
            for state in states
            if state is not None
            for number, times in state.items()
        }
        if options.sink == "files":
            rows = spark.read.parquet(f"{options.state}/counted").collect()
            found["emitted"] = [(row.number, row.times) for row in rows]
    progresses = [progress for progress in query.recentProgress if progress["numInputRows"]]
    found["began_at"] = [json.loads(p["sources"][0]["startOffset"] or "{}") for p in progresses[:1]]
    print("RESULT " + json.dumps(found), flush=True)  # noqa: T201 - for the test
    spark.stop()


if __name__ == "__main__":
    main()
