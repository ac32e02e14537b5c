"""Windowed aggregations of Spark made queryable: windows go when the watermark has passed them."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F

from queryable_state.streaming import Duration
from queryable_state.wire.keys.time_window import TimeWindow

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from tests.spark.conftest import Connect, MakeFeed, NewEnvironment
    from tests.spark.feed import Feed

    from queryable_state.client.blocking import QueryableStateClient
    from queryable_state.streaming import JobClient, StreamExecutionEnvironment

Counts = dict[tuple[str, int], int]


def counts_of(source: Feed, *, watermark: bool = True) -> DataFrame:
    """Readings by sensor and minute."""
    readings = source.dataframe()
    if watermark:
        readings = readings.withWatermark("ts", "10 seconds")
    return readings.groupBy("sensor", F.window("ts", "1 minute")).count()


def add(source: Feed, *readings: tuple[str, int]) -> None:
    """A batch of readings: sensor and second."""
    rows = [
        {"sensor": sensor, "ts": f"2013-01-01T00:{second // 60:02}:{second % 60:02}Z"}
        for sensor, second in readings
    ]
    source.add(*rows)


def declared(env: StreamExecutionEnvironment, counts: DataFrame) -> None:
    """The three ways to keep windows, and one to keep them longer."""
    stream = env.from_dataframe(counts)
    stream.key_by("sensor").as_queryable_state("windows", window="window").uid("windows")
    stream.key_by("sensor", "window").as_queryable_state("keys").uid("keys")
    stream.key_by("sensor").as_queryable_state(
        "longer", window="window", retain=Duration.of_minutes(2)
    ).uid("longer")
    stream.key_by("sensor").as_queryable_state(
        "all", window="window", retain="forever", latest_by="count"
    ).uid("all")


def minute_of(start: Any) -> int:
    return int(start.timestamp() if hasattr(start, "timestamp") else start / 1000) % 3600 // 60


def scanned(client: QueryableStateClient, job: JobClient, name: str) -> Counts:
    """The counts by sensor and minute."""
    with client.scan(job.job_id, name) as scan:
        found = {}
        for (sensor, window), state in scan:
            assert state is not None
            start = window.start if isinstance(window, TimeWindow) else window[0]
            found[sensor, minute_of(start)] = state.value()["count"]
    return found


def rows_of_spark(spark: SparkSession) -> int:
    """Rows in the state of Spark's own aggregation."""
    (query,) = spark.streams.active
    progress = query.lastProgress
    assert progress is not None
    return int(progress["stateOperators"][0]["numRowsTotal"])


@pytest.fixture
def source(feed: MakeFeed) -> Feed:
    return feed("sensor STRING, ts TIMESTAMP")


@pytest.mark.slow
def test_queries_find_the_windows_that_the_watermark_has_not_passed(
    new_environment: NewEnvironment,
    spark: SparkSession,
    source: Feed,
    connect: Connect,
    tmp_path: Any,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def started() -> JobClient:
        env = new_environment(checkpoint_directory=str(tmp_path / "state"))
        declared(env, counts_of(source))
        return env.execute_async("windows")

    def check(job: JobClient, live: Counts, longer: Counts, every: Counts) -> None:
        job.process_all_available()
        client = connect(job)
        assert scanned(client, job, "windows") == live
        assert scanned(client, job, "keys") == live
        assert rows_of_spark(spark) == len(live)
        assert scanned(client, job, "longer") == longer
        assert scanned(client, job, "all") == every

    with caplog.at_level(logging.WARNING, logger="queryable_state.streaming"):
        job = started()
    assert not [r for r in caplog.records if "never removed" in r.getMessage()]
    add(source, ("a", 10), ("b", 20), ("a", 30))
    first = {("a", 0): 2, ("b", 0): 1}
    check(job, first, first, first)
    add(source, ("b", 50), ("a", 65), ("c", 69))
    second = {("a", 0): 2, ("b", 0): 2, ("a", 1): 1, ("c", 1): 1}
    check(job, second, second, second)
    # 70 seconds less 10: the first minute is over.
    add(source, ("c", 70))
    live = {("a", 1): 1, ("c", 1): 2}
    every = {**second, **live}
    check(job, live, every, every)
    client = connect(job)
    windows = client.get_windows(job.job_id, "windows", "c")
    assert list(map(minute_of, (each.start for each in windows))) == [1]
    assert client.get_newest_window(job.job_id, "windows", "c").value()["count"] == 2
    (window,) = windows
    (timer,) = client.get_timers(job.job_id, "windows.timers", "c")
    assert (timer.window, timer.timestamp_ms) == (window, window.end)
    job.cancel()
    # Windows that ended while the job was down go with its next batches.
    add(source, ("a", 5), ("a", 190))
    job = started()
    live = {("a", 3): 1}
    every = {**every, **live}
    longer = {key: count for key, count in every.items() if key[1] > 0}
    check(job, live, longer, every)
    job.cancel()


def test_without_a_watermark_all_windows_stay_and_one_warning_says_so(
    env: StreamExecutionEnvironment,
    source: Feed,
    connect: Connect,
    caplog: pytest.LogCaptureFixture,
) -> None:
    stream = env.from_dataframe(counts_of(source, watermark=False))
    stream.key_by("sensor").as_queryable_state("windows", window="window").uid("windows")
    add(source, ("a", 10), ("a", 3000))
    with caplog.at_level(logging.WARNING, logger="queryable_state.streaming"):
        job = env.execute_async("windows")
    (warning,) = [r.getMessage() for r in caplog.records if "'windows'" in r.getMessage()]
    assert "no column of its stream has a watermark: call withWatermark" in warning
    job.process_all_available()
    add(source, ("a", 20))
    job.process_all_available()
    assert scanned(connect(job), job, "windows") == {("a", 0): 2, ("a", 50): 1}
    job.cancel()
