"""One Spark session with two executor processes for all tests here."""

from __future__ import annotations

import contextlib
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pyspark
import pytest
from pyspark import SparkContext, cloudpickle
from pyspark.sql import SparkSession
from tests.spark import functions
from tests.spark.feed import Feed
from tests.waiting import until

from queryable_state.streaming import StreamExecutionEnvironment

if TYPE_CHECKING:
    from collections.abc import Iterator

    from queryable_state.streaming.job_client import JobClient

cloudpickle.register_pickle_by_value(functions)  # type: ignore[no-untyped-call]

SENSORS = [f"sensor_{number}" for number in range(40)]
_WORK = Path(pyspark.__file__).parent / "work"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "tests/cluster/" in item.path.as_posix():
            item.add_marker(pytest.mark.cluster)
            item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    """Two executors of one core each; another session in this process is stopped first."""
    with two_executors() as session:
        yield session


@contextlib.contextmanager
def two_executors(**settings: str) -> Iterator[SparkSession]:
    """A session with two executors; `settings` are Spark's, with `__` for a dot."""
    if SparkContext._active_spark_context is not None:
        SparkContext._active_spark_context.stop()
    # The settings of the session that starts the JVM would be system properties of all later ones.
    SparkContext._ensure_initialized()
    builder: SparkSession.Builder = (
        SparkSession.builder.master("local-cluster[2,1,1024]")
        .appName("cluster-tests")
        .config("spark.ui.enabled", "false")
        .config("spark.executor.memory", "512m")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.queryable_state.lease_ms", "2000")
        .config("spark.queryable_state.lease_margin_ms", "300")
    )
    for name, value in settings.items():
        builder = builder.config(name.replace("__", "."), value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    jvm = session.sparkContext._jsc
    assert jvm is not None
    until(lambda: jvm.sc().getExecutorMemoryStatus().size() == 3, timeout_s=60)
    try:
        yield session
    finally:
        session.stop()
        shutil.rmtree(_WORK, ignore_errors=True)


@pytest.fixture
def env(spark: SparkSession) -> Iterator[StreamExecutionEnvironment]:
    yield StreamExecutionEnvironment.get_execution_environment(spark)
    for query in spark.streams.active:
        query.stop()


def executors(spark: SparkSession) -> dict[str, int]:
    """Executor ids and pids of the session."""
    application = spark.sparkContext.applicationId
    found: dict[str, int] = {}
    for process in psutil.process_iter():
        try:
            command = process.cmdline()
        except psutil.Error:
            continue
        if "--executor-id" in command and application in command:
            found[command[command.index("--executor-id") + 1]] = process.pid
    return found


def feed_all(source: Feed) -> None:
    """One reading of every sensor."""
    source.add(*({"sensor": sensor, "temperature": 1.0} for sensor in SENSORS))


def counted_job(env: StreamExecutionEnvironment, spark: SparkSession, folder: Path) -> JobClient:
    """A running job on both executors that has counted three readings of every sensor."""
    start_servers(env, Feed(spark, folder / "warm-up", functions.READINGS))
    source = Feed(spark, folder / "feed", functions.READINGS)
    stream = env.from_dataframe(source.dataframe()).key_by("sensor")
    stream.process(functions.CountPerKey(), functions.COUNTS).uid("counts")
    for _ in range(3):
        feed_all(source)
    job = env.execute_async("counting")
    job.process_all_available()
    return job


def start_servers(env: StreamExecutionEnvironment, source: Feed) -> None:
    """Runs batches until each executor has a server: a subtask waits for one, but not long."""
    env.from_dataframe(source.dataframe()).key_by("sensor").as_queryable_state("warm").uid("warm")
    job = env.execute_async("warm-up")
    feed_all(source)
    job.process_all_available()
    while len(job.proxy_addresses()) < 2:
        feed_all(source)
        job.process_all_available()
    job.cancel()
