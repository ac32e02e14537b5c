"""Sessions of aircraft over New York's flights of 2013, verified with pandas.

An aircraft that departs again within eight hours is in use: such departures are one session. The
departures arrive up to a day out of order. A session window with a gap of eight hours emits one row
a session when the watermark has passed it: aircraft, first and last departure, flights, total
arrival delay. The sessions that are still open can be queried by aircraft and window, as
`openSessions`, and the newest session that has ended by aircraft, as `lastSession`. At the end both
are compared with pandas over the whole table; the exit code is 1 if any differs.

    python examples/flight_sessions.py
"""

from __future__ import annotations

import argparse
import asyncio
import shutil
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from flights import flights_table
from pyspark.sql import SparkSession

from queryable_state.client import QueryableStateClient
from queryable_state.streaming import (
    AggregateFunction,
    EventTimeSessionWindows,
    StreamExecutionEnvironment,
    Time,
    Types,
)

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import DataFrame

    from queryable_state.streaming import JobClient

FILES = 24
GAP_MS = 8 * 3_600_000
NEVER_MS = 2**62
SCHEMA = "tailnum string, arr_delay bigint, departure timestamp"
SESSION = Types.ROW_NAMED(
    ["tailnum", "first_ms", "last_ms", "flights", "delay"],
    [Types.STRING(), Types.LONG(), Types.LONG(), Types.LONG(), Types.LONG()],
)


class Sessions(AggregateFunction[Any, Any, Any]):
    """Aircraft, first and last departure in milliseconds, flights, total arrival delay."""

    def create_accumulator(self) -> Any:
        return ("", NEVER_MS, -NEVER_MS, 0, 0)

    def add(self, value: Any, accumulator: Any) -> Any:
        at_ms = round(value.departure.timestamp() * 1000)
        one = (value.tailnum, at_ms, at_ms, 1, value.arr_delay or 0)
        return self.merge(accumulator, one)

    def get_result(self, accumulator: Any) -> Any:
        return accumulator

    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        key, first, last, flights, delay = acc_a
        other_key, other_first, other_last, other_flights, other_delay = acc_b
        return (
            key or other_key,
            min(first, other_first),
            max(last, other_last),
            flights + other_flights,
            delay + other_delay,
        )


def expected(table: pd.DataFrame) -> set[tuple[Any, ...]]:
    """The sessions of pandas: a departure that is later than the gap begins a new one."""
    ordered = table.sort_values(["tailnum", "departure_ms"])
    gap = ordered.groupby("tailnum")["departure_ms"].diff()
    session = (gap.isna() | (gap > GAP_MS)).cumsum()
    groups = ordered.groupby(session)
    sessions = groups.agg(
        tailnum=("tailnum", "first"),
        first=("departure_ms", "min"),
        last=("departure_ms", "max"),
        flights=("tailnum", "size"),
        delay=("arr_delay", "sum"),
    )
    return {
        (tailnum, int(first), int(last), int(flights), int(delay))
        for tailnum, first, last, flights, delay in sessions.itertuples(index=False)
    }


def write_input(table: pd.DataFrame, folder: Path) -> None:
    """Writes the files of the stream: departures are up to a day out of order."""
    folder.mkdir(parents=True)
    noise = np.random.default_rng(7).uniform(0, 24 * 3_600_000, len(table))
    arriving = table.iloc[np.argsort(table.departure_ms.to_numpy() + noise)]
    size = -(-len(arriving) // FILES)
    for number in range(FILES):
        part = arriving.iloc[number * size : (number + 1) * size]
        part[["tailnum", "arr_delay", "departure"]].to_parquet(
            folder / f"{number:02}.parquet", index=False
        )


def declare(env: StreamExecutionEnvironment, departures: DataFrame, ended: list[Any]) -> None:
    """Declares the job; `ended` receives the sessions that have ended."""

    def keep(batch: DataFrame, batch_id: int) -> None:
        ended.extend(tuple(row) for row in batch.collect())

    stream = env.from_dataframe(departures.withWatermark("departure", "1 day"))
    windowed = stream.key_by("tailnum").window(EventTimeSessionWindows.with_gap(Time.hours(8)))
    sessions = windowed.aggregate(
        Sessions(), accumulator_type=SESSION, output_type=SESSION, queryable_name="openSessions"
    ).uid("sessions")
    sessions.key_by("tailnum").as_queryable_state("lastSession", latest_by="first_ms").uid("last")
    sessions.add_sink(keep)


async def open_sessions(job: JobClient, tailnums: list[str]) -> set[tuple[Any, ...]]:
    """The sessions that have not ended, by a query for each aircraft."""
    host, port = job.proxy_address().rsplit(":", 1)
    async with QueryableStateClient(host, int(port)) as client:
        found = await asyncio.gather(
            *(client.get_windows(job.get_job_id(), "openSessions", each) for each in tailnums)
        )
    return {tuple(state.get()) for windows in found for state in windows.values()}


async def last_sessions(job: JobClient, tailnums: list[str]) -> dict[str, tuple[Any, ...]]:
    """The newest session of each aircraft that has ended."""
    host, port = job.proxy_address().rsplit(":", 1)
    async with QueryableStateClient(host, int(port)) as client:
        found = await client.get_kv_states(job.get_job_id(), "lastSession", tailnums)
    return {
        tailnum: tuple(state.value())
        for tailnum, state in zip(tailnums, found, strict=True)
        if state is not None
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--master", default="local[2,4]", help="Spark master")
    parser.add_argument("--backend", choices=("heap", "rocksdb"), default="rocksdb")
    options = parser.parse_args()

    table = flights_table().dropna(subset=["tailnum"])
    table["departure_ms"] = table.departure.astype("int64") // 1000
    folder = Path(tempfile.mkdtemp(prefix="sessions-"))
    spark = (
        SparkSession.builder.master(options.master)
        .appName("flight-sessions")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.queryable_state.backend", options.backend)
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    env = StreamExecutionEnvironment.get_execution_environment(spark)
    ended: list[Any] = []
    try:
        write_input(table, folder / "in")
        files = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 2)
        declare(env, files.parquet(str(folder / "in")), ended)
        job = env.execute_async("flight-sessions")
        job.process_all_available()
        tailnums = sorted(table.tailnum.unique())
        still_open = asyncio.run(open_sessions(job, tailnums))
        newest = asyncio.run(last_sessions(job, tailnums))
        job.cancel()
    finally:
        env.close()
        spark.stop()
        shutil.rmtree(folder, ignore_errors=True)

    wanted, found = expected(table), set(ended) | still_open
    last = {session[0]: session for session in sorted(ended, key=lambda each: each[1])}
    print(f"{len(table):,} flights: {len(ended):,} sessions ended, {len(still_open):,} are open")
    for session in sorted(wanted ^ found)[:20]:
        print(f"{'missing' if session in wanted else 'wrong'}: {session}", file=sys.stderr)
    equal = found == wanted and len(ended) + len(still_open) == len(wanted) and newest == last
    print("all equal to pandas" if equal else "DIFFERENT from pandas")
    return 0 if equal else 1


if __name__ == "__main__":
    sys.exit(main())
