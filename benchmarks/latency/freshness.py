"""`python -m benchmarks.latency.freshness`: time from a row's arrival to its value in an answer.

A job keeps the highest file number of each key. A file arrives once the file before it is in a
committed answer. Another process reads one key: committed by a look-up that waits for the next
batch, uncommitted by polling. The report compares both with Spark's durations of the row's batch
and task.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.arguments import add_common_arguments, write_run
from benchmarks.figures import percentile, table
from benchmarks.latency.reader import Reader, Seen
from benchmarks.machine import Machine, NoiseMeter
from benchmarks.signals import exit_on_signal
from benchmarks.streaming.session import start_session
from benchmarks.streaming.stages import last_stages
from queryable_state.streaming import StreamExecutionEnvironment

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

NAME = "newest"
KEY = "sensor_0"
SCHEMA = "key string, file bigint"
COMMITTED_GOAL_MS = 30
UNCOMMITTED_GOAL_MS = 10


@dataclass(frozen=True)
class Arrival:
    """The times of one file in milliseconds."""

    batch_ms: float
    """Spark's trigger duration."""
    task_ms: float
    """The operator's stage, from the launch of its first task to its end."""
    committed_ms: float
    """Time from the arrival to a committed answer."""
    uncommitted_ms: float
    """Time from the launch of the operator's tasks to an uncommitted answer."""

    @property
    def committed_over_ms(self) -> float:
        """Committed answer minus batch time."""
        return self.committed_ms - self.batch_ms

    @property
    def uncommitted_over_ms(self) -> float:
        """Uncommitted answer minus task time."""
        return self.uncommitted_ms - self.task_ms


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.latency.freshness", description=__doc__
    )
    parser.add_argument("--arrivals", type=int, default=100)
    parser.add_argument("--warm-up", type=int, default=20, help="arrivals not counted")
    parser.add_argument("--rows", type=int, default=10_000, help="of a file, with distinct keys")
    add_common_arguments(parser, quick="a fifth of the arrivals")
    options = parser.parse_args()
    if options.quick:
        options.arrivals, options.warm_up = 20, 8
    exit_on_signal()
    machine, meter = Machine.here(), NoiseMeter()
    with tempfile.TemporaryDirectory(prefix="benchmark-freshness-") as folder:
        arrivals = run(Path(folder), options.arrivals + options.warm_up, options.rows)
    arrivals = arrivals[options.warm_up :]
    print("\n".join(machine.lines()))
    print(meter.line())
    print(f"{len(arrivals)} arrivals of {options.rows:,} rows, {options.warm_up} of warm-up")
    print(report(arrivals))
    write_run(options, machine, meter, {"arrivals": [asdict(each) for each in arrivals]})
    return 0


def run(folder: Path, arrivals: int, rows: int) -> list[Arrival]:
    """Adds the files one by one and returns the times of each."""
    source = folder / "source"
    source.mkdir()
    spark = start_session(folder, {"spark.queryable_state.backend": "rocksdb"})
    try:
        with StreamExecutionEnvironment.get_execution_environment(spark) as environment:
            rows_of_files = spark.readStream.schema(SCHEMA).parquet(str(source))
            stream = environment.from_dataframe(rows_of_files)
            stream.key_by("key").aggregate_max("file", queryable_name=NAME).uid("newest")
            job = environment.execute_async(
                "freshness", checkpoint_location=str(folder / "checkpoint")
            )
            arrive(source, 0, rows)
            # The reader can wait only for a state that exists.
            job.process_all_available()
            with Reader(job.proxy_address(), job.job_id, NAME, KEY) as reader:
                reader.wait_for("committed", 0)
                arrived_us = {}
                for number in range(1, arrivals + 1):
                    # Not in step with Spark's polls for new files.
                    time.sleep(random.uniform(0.05, 0.15))
                    arrived_us[number] = arrive(source, number, rows)
                    reader.wait_for("committed", number)
            found = timed(spark, job.query, arrived_us, reader.seen)
            job.cancel()
        return found
    finally:
        spark.stop()


def arrive(source: Path, number: int, rows: int) -> int:
    """Adds one file atomically; returns its arrival in microseconds of the machine's clock."""
    draft = source.parent / "draft"
    keys = pa.array([f"sensor_{row}" for row in range(rows)])
    numbers = pa.array([number] * rows, type=pa.int64())
    pq.write_table(pa.table({"key": keys, "file": numbers}), draft)
    draft.rename(source / f"{number:06}.parquet")
    return time.time_ns() // 1000


def timed(
    spark: SparkSession,
    query: StreamingQuery,
    arrived_us: dict[int, int],
    seen: dict[str, dict[int, Seen]],
) -> list[Arrival]:
    """The times of each arrival, with those of its batch and its stage."""
    batches: dict[int, Any] = {progress.batchId: progress for progress in query.recentProgress}
    stages = last_stages(spark)
    arrivals = []
    for number, then_us in arrived_us.items():
        committed, uncommitted = seen["committed"][number], seen["uncommitted"][number]
        progress = batches[committed.batch]
        batch_ms = progress.durationMs["triggerExecution"]
        began_ms = datetime.fromisoformat(progress.timestamp).timestamp() * 1000
        (stage,) = [s for s in stages if began_ms <= s.launched_ms <= began_ms + batch_ms]
        arrivals.append(
            Arrival(
                batch_ms=batch_ms,
                task_ms=stage.ended_ms - stage.launched_ms,
                committed_ms=(committed.seen_us - then_us) / 1000,
                uncommitted_ms=uncommitted.seen_us / 1000 - stage.launched_ms,
            )
        )
    return arrivals


def report(arrivals: list[Arrival]) -> str:
    """The table: p50, p95 and the goal of each time."""

    def row(name: str, goal: str, values: list[float]) -> list[str]:
        ordered = sorted(round(value * 1000) for value in values)
        shares = [percentile(ordered, share) / 1000 for share in (0.5, 0.95)]
        return [name, *(f"{value:.1f}" for value in shares), goal]

    return table(
        ["ms", "p50", "p95", "goal of p50"],
        [
            row("batch time", "", [a.batch_ms for a in arrivals]),
            row("arrival to committed answer", "", [a.committed_ms for a in arrivals]),
            row(
                "committed answer minus batch time",
                str(COMMITTED_GOAL_MS),
                [a.committed_over_ms for a in arrivals],
            ),
            row("task time", "", [a.task_ms for a in arrivals]),
            row("task launch to uncommitted answer", "", [a.uncommitted_ms for a in arrivals]),
            row(
                "uncommitted answer minus task time",
                str(UNCOMMITTED_GOAL_MS),
                [a.uncommitted_over_ms for a in arrivals],
            ),
        ],
    )


if __name__ == "__main__":
    sys.exit(main())
