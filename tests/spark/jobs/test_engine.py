"""What the coordinator is told of real queries."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

import pytest
from tests.spark.functions import READINGS
from tests.waiting import until

from queryable_state.streaming.spark.queries.checkpoint_files import CheckpointFiles
from queryable_state.streaming.spark.queries.listener import CommitListener
from queryable_state.streaming.spark.queries.spark_adapter import SparkAdapter
from queryable_state.streaming.spark.queries.spark_log import SparkLog
from queryable_state.wire.errors import (
    CheckpointError,
    CorruptDataError,
    JobError,
    RetryLaterError,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession
    from tests.spark.conftest import MakeFeed

    from queryable_state.server.coordinator import BatchReport, RunFailure

ROW = {"sensor": "a", "temperature": 1.0}


class Observed:
    """Commits as the listener tells them."""

    def __init__(self) -> None:
        self.commits: list[tuple[bytes, int]] = []
        self.reports: list[BatchReport] = []
        self.failures: list[RunFailure] = []
        self.ends = 0

    def batch_committed(self, query_id: bytes, batch_id: int) -> None:
        self.commits.append((query_id, batch_id))

    def batch_reported(self, query_id: bytes, report: BatchReport) -> None:
        self.reports.append(report)

    def run_failed(self, query_id: bytes, run_id: bytes, failure: RunFailure) -> None:
        self.failures.append(failure)

    def refresh(self) -> None:
        self.ends += 1


@pytest.fixture
def engine(spark: SparkSession) -> SparkAdapter:
    return SparkAdapter(spark, lambda: None)


@pytest.fixture
def observed(spark: SparkSession, engine: SparkAdapter) -> Iterator[Observed]:
    observer = Observed()
    spark_log = SparkLog(spark.sparkContext)
    listener = CommitListener(engine, observer, lambda *_: None, spark_log)
    spark.streams.addListener(listener)
    yield observer
    spark.streams.removeListener(listener)
    spark_log.close()


def test_clocks_and_commits_are_those_of_sparks_logs(
    spark: SparkSession, engine: SparkAdapter, observed: Observed, feed: MakeFeed
) -> None:
    source = feed("at timestamp, sensor string")
    for minute in (0, 5):
        source.add({"at": f"2026-01-01T00:0{minute}:00Z", "sensor": "a"})
    stream = source.dataframe().withWatermark("at", "1 minute").dropDuplicates(["sensor", "at"])
    query = stream.writeStream.format("noop").queryName("clocks").start()
    query.processAllAvailable()
    query_id = uuid.UUID(query.id).bytes
    info = engine.query(query_id)
    assert info is not None
    assert (info.name, info.active, info.run_id) == ("clocks", True, uuid.UUID(query.runId).bytes)
    first, second = engine.clocks(query_id, 0), engine.clocks(query_id, 1)
    assert first.watermark_ms == 0
    assert second.watermark_ms == 1767225600_000 - 60_000
    assert 0 < first.timestamp_ms <= second.timestamp_ms
    assert first.offsets_digest != second.offsets_digest
    assert engine.clocks(query_id, 0) == first
    assert engine.is_committed(query_id, 1)
    assert not engine.is_committed(query_id, 100)
    with pytest.raises(RetryLaterError):
        engine.clocks(query_id, 100)
    until(lambda: (query_id, 1) in observed.commits)
    query.stop()
    until(lambda: observed.ends)
    ended = engine.query(query_id)
    assert ended is not None
    assert not ended.active
    assert ended.error is None
    assert engine.is_committed(query_id, 1)
    with pytest.raises(JobError, match="checkpoint was removed"):
        engine.clocks(query_id, 0)


def test_a_query_that_the_coordinator_stopped_has_failed_for_its_reason(
    spark: SparkSession, engine: SparkAdapter, observed: Observed, feed: MakeFeed
) -> None:
    """Spark itself knows no exception of it."""
    source = feed(READINGS)
    source.add(ROW)
    query = source.dataframe().writeStream.format("noop").start()
    query.processAllAvailable()
    engine.stop_query(uuid.UUID(query.id).bytes, CheckpointError("no checkpoint is intact"))
    until(lambda: observed.failures)
    [failure] = observed.failures
    assert (failure.message, failure.reason) == ("no checkpoint is intact", "CHECKPOINT_FAILED")


def test_queries_of_other_sessions_are_seen(
    spark: SparkSession, engine: SparkAdapter, feed: MakeFeed
) -> None:
    source = feed(READINGS)
    schema, path = READINGS, str(source._folder)
    other = spark.newSession().readStream.schema(schema).json(path)
    query = other.writeStream.format("noop").start()
    try:
        assert spark.streams.get(query.id) is None
        assert engine.query(uuid.UUID(query.id).bytes) is not None
    finally:
        query.stop()


def test_an_unknown_query_is_none(engine: SparkAdapter) -> None:
    assert engine.query(uuid.uuid4().bytes) is None
    assert engine.live_executors() == 1


@pytest.mark.parametrize("scheme", ["file:", "file://", "raw:"])
def test_checkpoints_are_read_locally_and_through_hadoop(
    spark: SparkSession, tmp_path: Path, scheme: str
) -> None:
    """Hadoop's raw local file system stands for a remote one: its scheme is not `file`."""
    context = spark.sparkContext
    assert context._jsc is not None
    conf = context._jsc.hadoopConfiguration()
    conf.set("fs.raw.impl", "org.apache.hadoop.fs.RawLocalFileSystem")
    folder = tmp_path / "check point ä"
    (folder / "offsets").mkdir(parents=True)
    (folder / "commits").mkdir()
    (folder / "offsets" / "0").write_text(
        'v1\n{"batchWatermarkMs":5,"batchTimestampMs":7,"conf":{}}\n{"logOffset":0}'
    )
    (folder / "offsets" / "1").write_text("v1\nnothing")
    (folder / "commits" / "0").write_text("v1\n{}")
    root = scheme.replace("raw:", "file:") + str(folder)
    files = CheckpointFiles(context, root)
    if scheme == "raw:":
        files.files._local = None
    clocks = files.clocks(0)
    assert clocks is not None
    assert (clocks.watermark_ms, clocks.timestamp_ms) == (5, 7)
    assert files.is_committed(0)
    assert not files.is_committed(1)
    assert files.clocks(2) is None
    with pytest.raises(CorruptDataError, match="offsets/1"):
        files.clocks(1)
