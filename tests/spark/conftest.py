"""One local Spark session for all tests here, an environment for each test."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from pyspark import SparkContext, cloudpickle
from pyspark.sql import SparkSession
from tests.spark import functions, worker_daemon
from tests.spark.feed import Feed

from queryable_state.client.blocking import QueryableStateClient
from queryable_state.streaming import EnvironmentSettings, StreamExecutionEnvironment
from queryable_state.streaming.spark.application import SparkApplication

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from queryable_state.streaming import JobClient

    NewEnvironment = Callable[..., StreamExecutionEnvironment]
    MakeFeed = Callable[[str], Feed]
    Connect = Callable[[JobClient | StreamExecutionEnvironment], QueryableStateClient]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "tests/spark/" in item.path.as_posix():
            item.add_marker(pytest.mark.spark)


# Executors need not have the tests on their path.
cloudpickle.register_pickle_by_value(functions)  # type: ignore[no-untyped-call]


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    # The settings of the session that starts the JVM would be system properties of all later ones.
    SparkContext._ensure_initialized()
    session = (
        SparkSession.builder.master("local[2,2]")
        .appName("tests")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.queryable_state.lease_ms", "3000")
        # Beside other work a Python worker may take long to start.
        .config("spark.python.authenticate.socketTimeout", "120s")
        .config("spark.python.daemon.module", worker_daemon.__name__)
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


@pytest.fixture
def env(spark: SparkSession) -> Iterator[StreamExecutionEnvironment]:
    """An environment; what a test leaves running is stopped, the servers stay for the next one."""
    yield StreamExecutionEnvironment.get_execution_environment(spark)
    for query in spark.streams.active:
        query.stop()


@pytest.fixture
def new_environment(spark: SparkSession, tmp_path: Path) -> Iterator[NewEnvironment]:
    """Ends what runs on the session, servers included, and starts anew with other settings."""

    def end() -> None:
        for query in spark.streams.active:
            query.stop()
        SparkApplication.close_all()

    def make(**settings: object) -> StreamExecutionEnvironment:
        end()
        wanted = {"lease_ms": 2_000, "lease_margin_ms": 300, "directory": str(tmp_path), **settings}
        return StreamExecutionEnvironment.get_execution_environment(
            spark,
            EnvironmentSettings(**wanted),  # type: ignore[arg-type]
        )

    yield make
    end()


@pytest.fixture
def feed(spark: SparkSession, tmp_path: Path) -> MakeFeed:
    """Makes a source of a schema."""
    made: list[Feed] = []

    def make(schema: str) -> Feed:
        made.append(Feed(spark, tmp_path / f"feed-{len(made)}", schema))
        return made[-1]

    return make


@pytest.fixture
def connect() -> Iterator[Connect]:
    """Makes clients of a job's proxy."""
    clients: list[QueryableStateClient] = []

    def make(job: JobClient | StreamExecutionEnvironment) -> QueryableStateClient:
        host, _, port = job.proxy_address().rpartition(":")
        clients.append(QueryableStateClient(host, int(port)))
        return clients[-1]

    yield make
    for client in clients:
        client.close()
