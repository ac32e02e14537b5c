"""Rows of many input splits a batch reach functions and sinks in the order that was asked for."""

from __future__ import annotations

import json
import logging
import os
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F
from tests.spark.functions import KeepsSequence

from queryable_state.streaming import ReducingStateDescriptor, Types, ValueStateDescriptor
from queryable_state.streaming.spark.queries.source_plan import origin_of
from queryable_state.wire.errors import InvalidRequestError

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession
    from tests.spark.conftest import Connect, NewEnvironment

    from queryable_state.client.blocking import QueryableStateClient
    from queryable_state.streaming import JobClient, StreamExecutionEnvironment

SCHEMA = "carrier string, ts timestamp, seq int, n bigint, delay double"
MONTHS = 12
CARRIERS = [f"carrier-{number}" for number in range(16)]
SEQUENCE = Types.ROW_NAMED(["carrier", "n"], [Types.STRING(), Types.LONG()])


def flight(carrier: str, number: int, *, seq: int = 0) -> dict[str, object]:
    """The flight of that number; numbers rise with time."""
    month, minute = divmod(number, 60)
    return {
        "carrier": carrier,
        "ts": f"2013-{month + 1:02}-01T00:{minute:02}:00Z",
        "seq": seq,
        "n": number,
        "delay": float(number % 7),
    }


class Months:
    """Files of a folder. Those that are there when a job starts are one batch; a running job takes
    them as they come."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        folder.mkdir()
        self._spark = spark
        self._folder = folder
        self._files = 0

    def add(self, files: list[list[dict[str, object]]]) -> None:
        """Writes one file after the other."""
        for rows in files:
            draft = self._folder / f".{self._files}"
            draft.write_text("".join(json.dumps(row) + "\n" for row in rows))
            age = 1_700_000_000 + self._files
            os.utime(draft, (age, age))
            draft.rename(self._folder / f"{self._files:04}.json")
            self._files += 1

    def dataframe(self) -> DataFrame:
        source = self._spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", MONTHS)
        return source.json(str(self._folder))


def year(late: int = 0) -> list[list[dict[str, object]]]:
    """The flights of a year, a file a month; later months have more rows, and Spark reads larger
    files first. With `late` only the first so many flights of each month."""
    return [
        [
            flight(carrier, month * 60 + minute, seq=minute % 5)
            for minute in range(late or 18 + 2 * month)
            for carrier in CARRIERS
        ]
        for month in (5, 11, 0, 8, 3, 10, 1, 9, 7, 2, 6, 4)
    ]


LAST = 11 * 60 + 39


def value_of(client: QueryableStateClient, job: JobClient, name: str, carrier: str) -> Any:
    return client.get_kv_state(job.job_id, name, carrier).value()


@pytest.fixture
def months(spark: SparkSession, tmp_path: Path) -> Months:
    return Months(spark, tmp_path / "months")


def test_a_year_of_files_a_batch_is_in_order_where_one_was_asked_for(
    env: StreamExecutionEnvironment, months: Months, connect: Connect
) -> None:
    stream = env.from_dataframe(months.dataframe())
    keyed = stream.key_by("carrier", order_by=None)
    keyed.as_queryable_state("arrived").uid("arrived")
    keyed.as_queryable_state("latest", latest_by="ts").uid("latest")
    ordered = stream.key_by("carrier", order_by="ts")
    ordered.as_queryable_state("last of batch").uid("last-of-batch")
    stream.key_by("carrier", order_by=["seq", ("ts", "desc")]).process(
        KeepsSequence("by two"), SEQUENCE
    ).uid("by-two")
    months.add(year())
    job = env.execute_async("year")
    job.process_all_available()
    client = connect(job)

    def numbers(name: str) -> set[int]:
        return {value_of(client, job, name, carrier).n for carrier in CARRIERS}

    # Without an order the last row is not the last one, which is what makes this test one.
    assert numbers("arrived") != {LAST}
    assert numbers("latest") == {LAST}
    assert numbers("last of batch") == {LAST}
    everything = [
        month * 60 + minute for month in range(MONTHS) for minute in range(18 + 2 * month)
    ]
    by_two = sorted(everything, key=lambda n: (n % 60 % 5, -n))
    for carrier in CARRIERS:
        assert list(client.get_kv_state(job.job_id, "by two", carrier).get()) == by_two
    job.cancel()


@pytest.mark.slow
def test_late_rows_do_not_count_over_batches_and_restarts(
    new_environment: NewEnvironment, months: Months, connect: Connect, tmp_path: Path
) -> None:
    """Of a row without the columns of its order, which is kept beside it."""

    def started() -> JobClient:
        env = new_environment(checkpoint_directory=str(tmp_path / "state"))
        number = ValueStateDescriptor("number", Types.ROW_NAMED(["n"], [Types.LONG()]))
        env.from_dataframe(months.dataframe()).key_by("carrier").as_queryable_state(
            "number", number, latest_by=["ts", "seq"]
        ).uid("number")
        return env.execute_async("late")

    def check(job: JobClient, n: int) -> None:
        job.process_all_available()
        client = connect(job)
        assert {value_of(client, job, "number", carrier).n for carrier in CARRIERS} == {n}

    months.add(year())
    job = started()
    check(job, LAST)
    months.add(year(late=5))
    check(job, LAST)
    job.cancel()
    months.add(year(late=2))
    job = started()
    check(job, LAST)
    newer = year(late=1)
    newer[4].extend({**flight(carrier, LAST, seq=9), "n": -1} for carrier in CARRIERS)
    months.add(newer)
    check(job, -1)
    job.cancel()


def test_the_newest_window_of_a_native_aggregation_is_its_newest_update(
    env: StreamExecutionEnvironment,
    months: Months,
    connect: Connect,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """In update mode a window comes again with each change: the later one stays."""
    flights = months.dataframe()
    windows = flights.groupBy("carrier", F.window("ts", "10 minutes")).agg(
        F.count("*").alias("flights")
    )
    keyed = env.from_dataframe(windows.where("flights > 0")).key_by("carrier")
    keyed.as_queryable_state("newest", latest_by="window").uid("newest")
    keyed.as_queryable_state("any").uid("any")
    months.add(year())
    with caplog.at_level(logging.WARNING, logger="queryable_state.streaming"):
        job = env.execute_async("windows")
    (warning,) = [r.getMessage() for r in caplog.records if "grouped by" in r.getMessage()]
    assert "operator 'any'" in warning
    assert "the key is carrier" in warning
    assert "latest_by='window'" in warning
    client = connect(job)

    def newest() -> set[tuple[int, int]]:
        job.process_all_available()
        found = [value_of(client, job, "newest", carrier) for carrier in CARRIERS]
        return {(row.window.start.minute, row.flights) for row in found}

    assert newest() == {(30, 10)}
    months.add(year(late=2))
    assert newest() == {(30, 10)}
    again = year(late=1)
    again[0].extend(flight(carrier, LAST) for carrier in CARRIERS)
    months.add(again)
    assert newest() == {(30, 11)}
    job.cancel()


def test_what_a_plan_says_of_the_order_of_its_rows(
    spark: SparkSession,
    env: StreamExecutionEnvironment,
    months: Months,
    caplog: pytest.LogCaptureFixture,
) -> None:
    flights = months.dataframe()
    origin = origin_of(flights.where("n > 1").withColumn("m", F.col("n") + 1))
    assert origin.grouping is None
    assert len(origin.sources) == 1
    assert origin.sources[0].startswith("FileSource[")
    one = spark.readStream.format("socket").option("host", "localhost").option("port", 9).load()
    assert origin_of(one).sources == ()
    assert len(origin_of(flights.unionByName(months.dataframe())).sources) == 1

    by_window = flights.groupBy(F.upper("carrier").alias("c"), F.window("ts", "1 hour")).count()
    renamed = by_window.select(
        F.col("c").alias("code"), F.col("window.end").alias("until"), F.col("count") + 1
    )
    grouping = origin_of(renamed.where("code <> 'X'")).grouping
    assert grouping is not None
    assert len(grouping.expressions) == 2
    assert grouping.carriers == {"code": 0, "until": 1}
    assert grouping.distinguished_by(["until", "code"])
    assert not grouping.distinguished_by(["code"])

    watermarked = env.from_dataframe(flights.withWatermark("ts", "1 hour"))
    with caplog.at_level(logging.WARNING, logger="queryable_state.streaming"):
        watermarked.key_by("carrier").as_queryable_state("by event time").to_dataframe()
        watermarked.key_by("carrier", order_by="n").as_queryable_state("by number").to_dataframe()
        assert "latest_by" not in caplog.text
        watermarked.key_by("carrier", order_by=None).as_queryable_state("by chance").to_dataframe()
    said = [r.getMessage() for r in caplog.records if "latest_by" in r.getMessage()]
    assert len(said) == 1
    assert "'by chance'" in said[0]
    assert "FileSource[" in said[0]
    with pytest.raises(InvalidRequestError, match=r"order_by takes .* not Column<'ts DESC"):
        watermarked.key_by("carrier", order_by=F.col("ts").desc())  # type: ignore[arg-type]
    with pytest.raises(InvalidRequestError, match="latest_by selects one element"):
        watermarked.key_by("carrier").as_queryable_state(
            "most",
            ReducingStateDescriptor("most", max, Types.ROW_NAMED(["n"], [Types.LONG()])),
            latest_by="ts",
        )
