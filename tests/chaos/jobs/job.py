"""The program of a round's driver: started anew after each kill, with the same arguments but for
operators and states that a fault renames.

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
from typing import TYPE_CHECKING, Protocol

from pyspark import cloudpickle
from pyspark.sql import SparkSession
from tests import plans
from tests.chaos.jobs import fired_windows, functions, sink_plans
from tests.chaos.jobs.workload import JOB_NAME, SCHEMA

from queryable_state.streaming import StreamExecutionEnvironment

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

# Executors have not this repository on their path.
for module in (functions, plans):
    cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]

_POLL_S = 0.1


class Job(Protocol):
    """What is common to jobs and to queries started by hand."""

    def await_termination(self, timeout_s: float) -> bool:
        """Whether it has ended, in time; raises what it failed of."""

    def cancel(self) -> object:
        """Ends it."""


class SparkJob:
    """A query started by hand."""

    def __init__(self, query: StreamingQuery) -> None:
        self._query = query

    def await_termination(self, timeout_s: float) -> bool:
        # It takes parts of seconds, too, whatever its annotation says.
        return bool(self._query.awaitTermination(timeout_s))  # type: ignore[arg-type]

    def cancel(self) -> None:
        self._query.stop()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--master", required=True)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--conf", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("--checkpoint-location", help="of Spark; without it, where our root has it")
    parser.add_argument("--spark", type=Path, required=True, help="Spark's checkpoint location")
    parser.add_argument("--output", help="write every row there, by a query started here")
    parser.add_argument("--plan", help="the plan before that output, of sink_plans")
    parser.add_argument("--actions", type=int, metavar="SEED", help="a random action a batch")
    parser.add_argument("--windowed", action="store_true", help="with windows behind the ledger")
    parser.add_argument("--rename", action="append", default=[], metavar="OLD=NEW")
    options = parser.parse_args()

    told = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: told.set())
    builder = SparkSession.builder.master(options.master).appName(JOB_NAME)
    # A cluster is not `local`: everything listens on all addresses of this machine.
    builder = builder.config("spark.queryable_state.insecure", "true")
    for setting in options.conf:
        name, _, value = setting.partition("=")
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("WARN")
    env = StreamExecutionEnvironment.get_execution_environment(spark)
    frame = (
        spark.readStream.schema(SCHEMA)
        .option("maxFilesPerTrigger", 1)
        .json(str(options.folder / "input"))
    )
    renamed = dict(each.split("=") for each in options.rename)
    ledger = functions.build_ledger(env.from_dataframe(functions.watermarked(frame)), renamed)
    if options.output:
        frame = ledger.to_dataframe()
        query = (
            sink_plans.FILE_SINK_PLANS[options.plan](frame)
            .writeStream.format("json")
            .queryName(JOB_NAME)
            .option("checkpointLocation", options.checkpoint_location)
            .start(options.output)
        )
        job: Job = SparkJob(query)
    else:
        sums = functions.build_sums(ledger, renamed)
        wrong = options.folder / sink_plans.WRONG_ROWS
        if options.actions is not None:
            sums.add_sink(sink_plans.random_actions(options.actions, options.spark, wrong))
        if options.windowed:
            fired = fired_windows.written(options.folder / fired_windows.FOLDER, wrong)
            functions.build_windows(ledger).add_sink(fired)
        job = env.execute_async(JOB_NAME, checkpoint_location=options.checkpoint_location)
    gateway = spark.sparkContext._gateway
    assert gateway is not None
    write_json(
        options.folder / "driver.json",
        {
            "pid": os.getpid(),
            "jvm_pid": gateway.proc.pid,
            "application_id": spark.sparkContext.applicationId,
        },
    )
    # A job that fails may be started again by its restart strategy, in this process.
    while not told.is_set():
        if job.await_termination(_POLL_S):
            raise SystemExit("the job has ended by itself")
    job.cancel()
    env.close()
    spark.stop()


def write_json(path: Path, content: dict[str, object]) -> None:
    """Writes a file that nobody sees half of."""
    draft = path.with_suffix(".draft")
    draft.write_text(json.dumps(content))
    draft.rename(path)


if __name__ == "__main__":
    main()
