"""Programs whose output a test reads: `python programs.py NAME`."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from queryable_state.client.blocking import QueryableStateClient
from queryable_state.streaming import (
    KeyedProcessFunction,
    RuntimeContext,
    StreamExecutionEnvironment,
    Types,
    ValueStateDescriptor,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from queryable_state.streaming import DataStream, JobClient

_PAIR = Types.TUPLE([Types.STRING(), Types.LONG()])


class Counter(KeyedProcessFunction):
    """Counts the elements of each key."""

    def open(self, runtime_context: RuntimeContext) -> None:
        descriptor = ValueStateDescriptor("count", Types.LONG())
        descriptor.set_queryable("counts")
        self.count = runtime_context.get_state(descriptor)

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterator[int]:
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        yield self.shown(count)

    def shown(self, count: int) -> int:
        return count


class Failing(Counter):
    def shown(self, count: int) -> int:
        return 10 // (5 - count)


class Slow(Counter):
    def shown(self, count: int) -> int:
        time.sleep(60)
        return count


def environment() -> StreamExecutionEnvironment:
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .getOrCreate()
    )
    env = StreamExecutionEnvironment.get_execution_environment(spark)
    env.set_parallelism(2)
    return env


def counted(env: StreamExecutionEnvironment, function: KeyedProcessFunction) -> DataStream:
    pairs = [(f"key_{number % 3}", number) for number in range(30)]
    keyed = env.from_collection(pairs, type_info=_PAIR).key_by(lambda pair: pair[0])
    return keyed.process(function, output_type=Types.LONG()).uid("counter")


def failing_function() -> None:
    env = environment()
    counted(env, Failing()).print()
    env.execute("failing")


def failing_sink() -> None:
    """The program does not wait for its job."""
    env = environment()

    def write(batch: Any, batch_id: int) -> None:
        raise ConnectionError(f"the database refused {len(batch.collect())} rows")

    counted(env, Counter()).add_sink(write)
    job = env.execute_async("writing")
    while job.exception() is None:
        time.sleep(0.1)
    time.sleep(2)
    print(f"{type(job.exception()).__name__} {job.status().name}")


def cancelled_in_its_first_batch() -> None:
    """With two sinks, so that the operators run in the function of a batch."""
    env = environment()
    slow = counted(env, Slow())
    slow.print()
    slow.map(lambda count: count, output_type=Types.LONG()).print()
    job = env.execute_async("cancelled")
    job.proxy_address(timeout_s=300)
    time.sleep(2)
    job.cancel()
    print(f"{job.exception()} {job.status().name}")


def stopped_with_a_client() -> None:
    """Spark is stopped, and the program ends, while a client is open."""
    env = environment()
    counted(env, Counter()).print()
    job = env.execute_async("counting")
    job.await_termination()
    host, _, port = job.proxy_address(timeout_s=300).rpartition(":")
    client = QueryableStateClient(host, int(port))
    print(client.get_kv_state("counting", "counts", "key_1").value())
    SparkSession.active().stop()


def lost_server() -> None:
    """The state server is killed; the job goes on with another one, from its changelog."""
    env = environment()
    env.enable_checkpointing(1_000)
    env.get_checkpoint_config().set_checkpoint_storage_dir(sys.argv[2])
    spark = SparkSession.active()
    rate = spark.readStream.format("rate").option("rowsPerSecond", 50).load()
    rows = rate.select((F.col("value") % 10).cast("string").alias("key"), F.col("value"))
    env.from_dataframe(rows).key_by("key").as_queryable_state("last")
    job = env.execute_async("going on")
    until_batch(job, 2)
    (server,) = filter(is_server, Path("/proc").glob("[0-9]*"))
    print("killed", flush=True)
    os.kill(int(server.name), signal.SIGKILL)
    until_batch(job, newest_batch(job) + 4)
    print(f"went on {job.status().name}", flush=True)
    job.cancel()


def is_server(process: Path) -> bool:
    """True for a state server of this program."""
    try:
        command, environ = process / "cmdline", process / "environ"
        return b"state_server" in command.read_bytes() and MARK in environ.read_bytes()
    except OSError:
        return False


def until_batch(job: JobClient, batch_id: int) -> None:
    while newest_batch(job) < batch_id:
        job.raise_if_failed()
        time.sleep(0.05)


def newest_batch(job: JobClient) -> int:
    progress = job.query.lastProgress
    return -1 if progress is None else int(progress["batchId"])


if __name__ == "__main__":
    MARK = os.environ["CONSOLE_MARK"].encode()
    globals()[sys.argv[1]]()
