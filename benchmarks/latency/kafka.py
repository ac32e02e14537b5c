"""`python -m benchmarks.latency.kafka`: time from producing a record to its value in an answer.

A job keeps the highest number of each key of a Kafka topic; the broker runs on this machine. A
record is produced once the record before it is in a committed answer. Another process reads its key
by a look-up that waits for the next batch. The report compares the times with Spark's duration of
the record's batch.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from confluent_kafka import Producer

from benchmarks.arguments import add_common_arguments, write_run
from benchmarks.latency.latency_table import Latency, latency_table
from benchmarks.latency.reader import Reader, Seen
from benchmarks.machine import Machine, NoiseMeter
from benchmarks.signals import exit_on_signal
from benchmarks.streaming.session import start_session
from queryable_state.streaming import StreamExecutionEnvironment
from queryable_state.streaming.testing.kafka import KafkaBroker, connector_jars

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

NAME = "newest"
KEY = "sensor_0"
TOPIC = "readings"
PARTITIONS = 2
GOAL_MS = 50


@dataclass(frozen=True)
class Arrival:
    """The times of one record in milliseconds."""

    acknowledged_ms: float
    """From `produce` to the broker's acknowledgement."""
    batch_ms: float
    """Spark's trigger duration."""
    offsets_ms: float
    """The part of it in which Spark asks the broker for the newest offsets."""
    committed_ms: float
    """From `produce` to a committed answer."""

    @property
    def over_ms(self) -> float:
        """Committed answer minus batch time."""
        return self.committed_ms - self.batch_ms


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.latency.kafka", description=__doc__)
    parser.add_argument("--records", type=int, default=100)
    parser.add_argument("--warm-up", type=int, default=20, help="records not counted")
    parser.add_argument("--keys", type=int, default=10_000, help="of the state")
    add_common_arguments(parser, quick="a fifth of the records")
    options = parser.parse_args()
    if options.quick:
        options.records, options.warm_up = 20, 8
    exit_on_signal()
    machine, meter = Machine.here(), NoiseMeter()
    with tempfile.TemporaryDirectory(prefix="benchmark-kafka-") as folder:
        arrivals = run(Path(folder), options.records + options.warm_up, options.keys)
    arrivals = arrivals[options.warm_up :]
    print("\n".join(machine.lines()))
    print(meter.line())
    print(f"{len(arrivals)} records, {options.warm_up} of warm-up, state of {options.keys:,} keys")
    print(report(arrivals))
    write_run(options, machine, meter, {"arrivals": [asdict(each) for each in arrivals]})
    return 0


def run(folder: Path, records: int, keys: int) -> list[Arrival]:
    """Produces the records one by one and returns the times of each."""
    settings = {"spark.queryable_state.backend": "rocksdb", "spark.jars": connector_jars()}
    spark = start_session(folder, settings)
    try:
        with (
            KafkaBroker(folder / "kafka") as broker,
            StreamExecutionEnvironment.get_execution_environment(spark) as environment,
        ):
            broker.create_topic(TOPIC, PARTITIONS)
            producer = Producer(
                {"bootstrap.servers": broker.bootstrap_servers, "linger.ms": 0, "log_level": 3}
            )
            for number in range(keys):
                producer.produce(TOPIC, key=f"sensor_{number}", value="0")
            producer.flush()
            rows = records_of(spark, broker.bootstrap_servers)
            stream = environment.from_dataframe(rows).key_by("key", order_by=None)
            stream.aggregate_max("number", queryable_name=NAME).uid("newest")
            job = environment.execute_async(
                "freshness", checkpoint_location=str(folder / "checkpoint")
            )
            # The reader can wait only for a state that exists.
            job.process_all_available()
            with Reader(job.proxy_address(), job.job_id, NAME, KEY, ["committed"]) as reader:
                reader.wait_for("committed", 0)
                produced = {}
                for number in range(1, records + 1):
                    # Not in step with Spark's polls for new records.
                    time.sleep(random.uniform(0.05, 0.15))
                    produced[number] = produce(producer, number)
                    reader.wait_for("committed", number)
            found = timed(job.query, produced, reader.seen["committed"])
            job.cancel()
        return found
    finally:
        spark.stop()


def records_of(spark: SparkSession, servers: str) -> DataFrame:
    """The topic as rows of key and number."""
    source = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", servers)
        .option("subscribe", TOPIC)
        .option("startingOffsets", "earliest")
        .load()
    )
    return source.selectExpr(
        "CAST(key AS string) key", "CAST(CAST(value AS string) AS bigint) number"
    )


def produce(producer: Producer, number: int) -> tuple[int, int]:
    """Produces one record; the times before and after in microseconds of the machine's clock."""
    before_us = time.time_ns() // 1000
    producer.produce(TOPIC, key=KEY, value=str(number))
    producer.flush()
    return before_us, time.time_ns() // 1000


def timed(
    query: StreamingQuery, produced: dict[int, tuple[int, int]], seen: dict[int, Seen]
) -> list[Arrival]:
    """The times of each record, with those of its batch."""
    batches: dict[int, Any] = {progress.batchId: progress for progress in query.recentProgress}
    arrivals = []
    for number, (before_us, after_us) in produced.items():
        durations = batches[seen[number].batch].durationMs
        arrivals.append(
            Arrival(
                acknowledged_ms=(after_us - before_us) / 1000,
                batch_ms=durations["triggerExecution"],
                offsets_ms=durations["latestOffset"],
                committed_ms=(seen[number].seen_us - before_us) / 1000,
            )
        )
    return arrivals


def report(arrivals: list[Arrival]) -> str:
    """The table: p50, p95 and the goal of each time."""
    return latency_table(
        [
            Latency("produce to acknowledgement", "", [a.acknowledged_ms for a in arrivals]),
            Latency("batch time", "", [a.batch_ms for a in arrivals]),
            Latency("of it, newest offsets", "", [a.offsets_ms for a in arrivals]),
            Latency("produce to committed answer", "", [a.committed_ms for a in arrivals]),
            Latency(
                "committed answer minus batch time", str(GOAL_MS), [a.over_ms for a in arrivals]
            ),
        ],
    )


if __name__ == "__main__":
    sys.exit(main())
