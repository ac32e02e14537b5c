"""Sessions of users from a Kafka topic, queried while they are open and checked at the end.

A producer writes the clicks of a day to the topic `clicks`, up to five minutes out of order. A user
who does not click for half an hour has ended a session. Sessions that have ended go to the topic
`sessions`; those that are open can be queried by user, as `openSessions`. At the end both are
compared with what plain Python finds in the clicks; the exit code is 1 if any differs.

    python examples/kafka_sessions.py

starts a broker of its own and needs Java 17 and, the first time, Maven Central.
`--bootstrap-servers HOST:PORT` uses yours; the topics must not exist.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import random
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from queryable_state.client import QueryableStateClient, UnknownStateError
from queryable_state.streaming import (
    AggregateFunction,
    EventTimeSessionWindows,
    StreamExecutionEnvironment,
    Time,
    Types,
)
from queryable_state.streaming.testing.kafka import KafkaBroker, connector_jars

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Message
    from pyspark.sql import DataFrame

    from queryable_state.streaming import JobClient

USERS = [f"user_{number}" for number in range(200)]
DAY_MS = 24 * 3_600_000
GAP_MS = 30 * 60_000
LATE_MS = 5 * 60_000
PARTITIONS = 2
NEVER_MS = 2**62
SESSION = Types.ROW_NAMED(
    ["user", "first_ms", "last_ms", "clicks"],
    [Types.STRING(), Types.LONG(), Types.LONG(), Types.LONG()],
)


class Click(NamedTuple):
    at_ms: int
    user: str
    page: str


class Sessions(AggregateFunction[Any, Any, Any]):
    """User, first and last click in milliseconds, clicks."""

    def create_accumulator(self) -> Any:
        return ("", NEVER_MS, -NEVER_MS, 0)

    def add(self, value: Any, accumulator: Any) -> Any:
        at_ms = round(value.timestamp.timestamp() * 1000)
        return self.merge(accumulator, (value.user, at_ms, at_ms, 1))

    def get_result(self, accumulator: Any) -> Any:
        return accumulator

    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        user, first, last, clicks = acc_a
        other_user, other_first, other_last, other_clicks = acc_b
        return (
            user or other_user,
            min(first, other_first),
            max(last, other_last),
            clicks + other_clicks,
        )


def clicks_of_a_day(seed: int) -> list[Click]:
    """The clicks of all users in the last 24 hours, by time."""
    chance, end_ms = random.Random(seed), int(time.time() * 1000)
    found = []
    for user in USERS:
        at_ms = end_ms - DAY_MS + chance.randrange(DAY_MS // 4)
        while at_ms < end_ms:
            for _ in range(chance.randint(1, 30)):
                found.append(Click(at_ms, user, f"/page/{chance.randrange(100)}"))
                at_ms += chance.randrange(1_000, GAP_MS // 3)
            at_ms += chance.randrange(2 * GAP_MS, DAY_MS // 4)
    return sorted(click for click in found if click.at_ms < end_ms)


def expected_sessions(clicks: list[Click]) -> set[tuple[Any, ...]]:
    """The sessions of plain Python: a click later than the gap begins a new one."""
    found: dict[str, list[tuple[Any, ...]]] = {}
    for at_ms, user, _ in clicks:
        sessions = found.setdefault(user, [])
        if sessions and at_ms - sessions[-1][2] <= GAP_MS:
            _, first, _, count = sessions[-1]
            sessions[-1] = (user, first, at_ms, count + 1)
        else:
            sessions.append((user, at_ms, at_ms, 1))
    return {session for sessions in found.values() for session in sessions}


def produce(clicks: list[Click], servers: str, per_second: int) -> None:
    """Writes the clicks, up to five minutes out of order; the record's timestamp is the click's."""

    def written(error: KafkaError | None, message: Message) -> None:
        if error is not None:
            raise RuntimeError(f"click {message.value()!r} was not written: {error}")

    chance = random.Random(7)
    arriving = sorted(clicks, key=lambda click: click.at_ms + chance.randrange(LATE_MS))
    # An idempotent producer: what it sends again after an error is in the topic once.
    producer = Producer({"bootstrap.servers": servers, "enable.idempotence": True, "log_level": 3})
    for number, (at_ms, user, page) in enumerate(arriving, 1):
        value = json.dumps({"user": user, "page": page})
        producer.produce("clicks", value, user, timestamp=at_ms, on_delivery=written)
        if number % 100 == 0:
            producer.flush()
            time.sleep(100 / per_second)
    producer.flush()


def clicks_from(spark: SparkSession, servers: str) -> DataFrame:
    """The topic as rows of user, page and time; a batch has at most 5,000 of them."""
    records = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", servers)
        .option("subscribe", "clicks")
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", 5_000)
        .load()
    )
    click = F.from_json(F.col("value").cast("string"), "user string, page string")
    return records.select(click.alias("click"), "timestamp").select("click.*", "timestamp")


def declare(env: StreamExecutionEnvironment, clicks: DataFrame, servers: str) -> None:
    """Declares the job: clicks to sessions, and sessions that have ended to a topic."""

    def write(batch: DataFrame, batch_id: int) -> None:
        # At least once: a batch that Spark runs again after a failure is written again.
        records = batch.selectExpr("user AS key", "to_json(struct(*)) AS value").write
        records.format("kafka").option("kafka.bootstrap.servers", servers).option(
            "topic", "sessions"
        ).save()

    stream = env.from_dataframe(clicks.withWatermark("timestamp", "30 minutes"))
    windows = stream.key_by("user").window(
        EventTimeSessionWindows.with_gap(Time.milliseconds(GAP_MS))
    )
    sessions = windows.aggregate(
        Sessions(), accumulator_type=SESSION, output_type=SESSION, queryable_name="openSessions"
    )
    sessions.uid("sessions").add_sink(write)


async def open_sessions(job: JobClient, users: list[str]) -> set[tuple[Any, ...]]:
    """The sessions of these users that have not ended."""
    host, port = job.proxy_address().rsplit(":", 1)
    async with QueryableStateClient(host, int(port)) as client:
        found = await asyncio.gather(
            *(client.get_windows(job.get_job_id(), "openSessions", user) for user in users)
        )
    return {tuple(state.get()) for windows in found for state in windows.values()}


def ended_sessions(servers: str) -> set[tuple[Any, ...]]:
    """The records of the topic `sessions`; one that was written twice counts once."""
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "check"})
    found = set()
    try:
        for partition in range(PARTITIONS):
            place = TopicPartition("sessions", partition, 0)
            end = consumer.get_watermark_offsets(place)[1]
            consumer.assign([place])
            while place.offset < end:
                message = consumer.poll(10)
                if message is None:
                    raise TimeoutError(f"no record {place.offset} of {end} within 10 s")
                found.add(tuple(json.loads(message.value() or b"{}").values()))
                place.offset = (message.offset() or 0) + 1
    finally:
        consumer.close()
    return found


def make_topics(servers: str) -> None:
    """Creates the topics of the example; raises KafkaException if one exists."""
    admin = AdminClient({"bootstrap.servers": servers})
    topics = [NewTopic(name, PARTITIONS) for name in ("clicks", "sessions")]
    for made in admin.create_topics(topics).values():
        made.result(30)


def watch(job: JobClient, producing: threading.Thread) -> None:
    """Prints the open sessions of three users while clicks arrive."""
    while producing.is_alive():
        with contextlib.suppress(UnknownStateError):  # before the first batch
            for user, first, last, clicks in sorted(asyncio.run(open_sessions(job, USERS[:3]))):
                print(f"{user}: {clicks} clicks in {(last - first) / 60_000:.0f} min", flush=True)
        producing.join(1)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bootstrap-servers", help="HOST:PORT of a broker that runs already")
    parser.add_argument("--backend", choices=("heap", "rocksdb"), default="rocksdb")
    parser.add_argument("--per-second", type=int, default=2_000, help="clicks produced")
    options = parser.parse_args()

    clicks = clicks_of_a_day(seed=42)
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="kafka-sessions-")))
        servers = options.bootstrap_servers
        if servers is None:
            servers = stack.enter_context(KafkaBroker(folder / "kafka")).bootstrap_servers
        make_topics(servers)
        spark = (
            SparkSession.builder.master("local[2,4]")
            .appName("kafka-sessions")
            .config("spark.jars", connector_jars())
            .config("spark.ui.enabled", "false")
            .config("spark.sql.shuffle.partitions", "2")
            .config("spark.queryable_state.backend", options.backend)
            .config("spark.queryable_state.state.checkpoints.dir", str(folder / "state"))
            .getOrCreate()
        )
        stack.callback(spark.stop)
        spark.sparkContext.setLogLevel("ERROR")
        env = stack.enter_context(StreamExecutionEnvironment.get_execution_environment(spark))
        producing = threading.Thread(
            target=produce, args=(clicks, servers, options.per_second), name="producer"
        )
        producing.start()
        declare(env, clicks_from(spark, servers), servers)
        job = env.execute_async("kafka-sessions")
        watch(job, producing)
        job.process_all_available()
        still_open = asyncio.run(open_sessions(job, USERS))
        job.cancel()
        ended = ended_sessions(servers)

    wanted, found = expected_sessions(clicks), ended | still_open
    print(f"{len(clicks):,} clicks: {len(ended):,} sessions ended, {len(still_open):,} are open")
    for session in sorted(wanted ^ found)[:20]:
        print(f"{'missing' if session in wanted else 'wrong'}: {session}", file=sys.stderr)
    equal = found == wanted and not ended & still_open
    print("all equal to plain Python" if equal else "DIFFERENT from plain Python")
    return 0 if equal else 1


if __name__ == "__main__":
    sys.exit(main())
