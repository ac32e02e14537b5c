"""A query of plain Structured Streaming is served while it runs, by one line in its driver."""

from __future__ import annotations

import os
import signal
import time
import urllib.request
from typing import TYPE_CHECKING

import pytest
from pyspark import SparkContext
from pyspark.sql import SparkSession
from tests.waiting import DEADLINE_S

from queryable_state.client.blocking import QueryableStateClient
from queryable_state.streaming import serve_query
from queryable_state.wire.errors import InvalidRequestError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql.streaming.query import StreamingQuery

    from queryable_state.streaming.spark.queries.native_query import NativeQuery

pytestmark = pytest.mark.spark

KEYS = 40
ROWS = 200

PROVIDER = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    """A session that knows nothing of this package."""
    # The settings of the session that starts the JVM would be system properties of all later ones.
    SparkContext._ensure_initialized()
    session = (
        SparkSession.builder.master("local[2]")
        .appName("plain")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "3")
        .config("spark.sql.streaming.stateStore.providerClass", PROVIDER)
        .config("spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled", "true")
        .config("spark.sql.streaming.stateStore.maintenanceInterval", "2s")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


def counting(spark: SparkSession, folder: Path, name: str = "") -> StreamingQuery:
    """Starts a query that counts `ROWS` rows a batch by key."""
    rows = (
        spark.readStream.format("rate-micro-batch")
        .option("rowsPerBatch", ROWS)
        .option("numPartitions", 1)
        .load()
        .selectExpr(f"value % {KEYS} AS key", "value")
    )
    writer = (
        rows.groupBy("key")
        .agg({"value": "count"})
        .writeStream.format("noop")
        .outputMode("update")
        .option("checkpointLocation", str(folder))
        .trigger(processingTime="100 milliseconds")
    )
    return (writer.queryName(name) if name else writer).start()


def client_of(served: NativeQuery) -> QueryableStateClient:
    host, _, port = served.address.rpartition(":")
    return QueryableStateClient(host, int(port), timeout_s=DEADLINE_S)


def test_every_answer_is_of_one_batch_of_the_running_query(
    spark: SparkSession, tmp_path: Path
) -> None:
    """All partitions at the same batch: the counts add up to the rows of its batches."""
    query = counting(spark, tmp_path / "checkpoint", "clicks")
    try:
        with serve_query(query) as served, client_of(served) as client:
            assert served.name == "clicks"
            with urllib.request.urlopen(f"{served.web_address}/api/v1/jobs") as answer:
                assert b"clicks" in answer.read()
            seen: set[int] = set()
            until_s = time.monotonic() + DEADLINE_S
            while len(seen) < 8:
                assert time.monotonic() < until_s
                with client.scan("clicks", "aggregation") as scan:
                    found = {key: value.value()[0] for key, value in scan if value is not None}
                    assert scan.info is not None
                    version = scan.info.version
                assert sum(found.values()) == ROWS * (version + 1)
                seen.add(version)
            one = client.get_kv_state("clicks", "aggregation", 7)
            assert one.value()[0] == (one.info.version + 1) * ROWS // KEYS
            query.stop()
            _until_ended(served, until_s)
    finally:
        query.stop()
    stored = spark.read.format("statestore").load(str(tmp_path / "checkpoint"))
    assert stored.count() == KEYS


def _until_ended(served: NativeQuery, until_s: float) -> None:
    """Waits until the server has ended by itself."""
    while served.is_running:
        assert time.monotonic() < until_s
        time.sleep(0.05)


@pytest.mark.slow
def test_a_server_that_is_killed_is_started_again_beside_the_query(
    spark: SparkSession, tmp_path: Path
) -> None:
    query = counting(spark, tmp_path / "all orders" / "checkpoint")
    try:
        first = serve_query(query, web="off")
        assert first.name == "all orders"
        os.kill(first.pid, signal.SIGKILL)
        with serve_query(query, "again", web="off") as served, client_of(served) as client:
            value = client.get_kv_state("again", "aggregation", 3)
            assert value.value()[0] == (value.info.version + 1) * ROWS // KEYS
        first.close()
        assert query.isActive
    finally:
        query.stop()


def test_a_query_without_state_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    rows = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 1).load()
    query = (
        rows.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "c")).start()
    )
    try:
        with pytest.raises(InvalidRequestError, match="keeps no state"):
            serve_query(query)
    finally:
        query.stop()
