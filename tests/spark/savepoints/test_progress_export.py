"""A Spark checkpoint made as of one batch: a query that begins with it reads what came behind."""

from __future__ import annotations

import json
import uuid
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import functions as F

from queryable_state.server.checkpoint.file_systems.storage_factory import storage_of
from queryable_state.streaming.spark.savepoints.file_sink_check import check_sink
from queryable_state.streaming.spark.savepoints.progress_export import export_progress
from queryable_state.streaming.spark.savepoints.seeding import ORIGIN
from queryable_state.streaming.spark.savepoints.spark_files import SparkFiles
from queryable_state.wire.errors import CheckpointError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from tests.spark.conftest import MakeFeed

SCHEMA = "id long"
HDFS = "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


@pytest.fixture
def conf(spark: SparkSession) -> Iterator[dict[str, str]]:
    """Settings of the session for one test: what is put in is set by `apply`."""
    wanted: dict[str, str] = {}
    yield wanted
    for name in wanted:
        spark.conf.unset(name)


def apply(spark: SparkSession, conf: dict[str, str]) -> None:
    for name, value in conf.items():
        spark.conf.set(name, value)


def start(frame: DataFrame, location: Path, rows: list[tuple[int, ...]]) -> StreamingQuery:
    def collect(batch: DataFrame, batch_id: int) -> None:
        rows.extend((batch_id, *row) for row in batch.collect())

    return (
        frame.writeStream.foreachBatch(collect)
        .outputMode("update")
        .option("checkpointLocation", str(location))
        .start()
    )


def exported(spark: SparkSession, location: Path, batch_id: int, folder: Path) -> Path:
    """The checkpoint as of a batch, under an id of its own."""
    files = SparkFiles.of(spark.sparkContext, str(location))
    export_progress(files, batch_id, storage_of(str(folder)), str(folder))
    (folder / "metadata").write_text(json.dumps({"id": str(uuid.uuid4())}))
    assert not [path for path in folder.rglob("*") if path.name.endswith(".crc")]
    return folder


def test_a_query_goes_on_behind_any_batch_of_a_file_log_that_went_through_compactions(
    spark: SparkSession, feed: MakeFeed, tmp_path: Path, conf: dict[str, str]
) -> None:
    """Batch 2 is within a `.compact` file that goes to 5: all smaller ones are removed."""
    conf["spark.sql.streaming.fileSource.log.compactInterval"] = "3"
    conf["spark.sql.streaming.fileSource.log.cleanupDelay"] = "0"
    apply(spark, conf)
    source = feed(SCHEMA)
    for number in range(8):
        source.add({"id": number})
    location = tmp_path / "query"
    query = start(source.dataframe(), location, [])
    query.processAllAvailable()
    query.stop()
    log = location / "sources/0"
    assert (log / "5.compact").exists()
    # Spark removes them in its own time, at times only with the next compaction.
    for name in ("0", "1", "2.compact", "3", "4"):
        (log / name).unlink(missing_ok=True)
        (log / f".{name}.crc").unlink(missing_ok=True)
    for batch in (2, 4, 5, 7):
        rows: list[tuple[int, ...]] = []
        again = start(
            source.dataframe(), exported(spark, location, batch, tmp_path / str(batch)), rows
        )
        again.processAllAvailable()
        again.stop()
        assert rows == [(number, number) for number in range(batch + 1, 8)]


def test_two_sources_each_go_on_behind_their_own_offset(
    spark: SparkSession, feed: MakeFeed, tmp_path: Path
) -> None:
    """One of them had no file yet at the batch."""
    early, late = feed(SCHEMA), feed(SCHEMA)
    frame = early.dataframe().union(late.dataframe())
    early.add({"id": 1})
    location = tmp_path / "query"
    query = start(frame, location, [])
    query.processAllAvailable()
    late.add({"id": 100})
    query.processAllAvailable()
    query.stop()
    rows: list[tuple[int, ...]] = []
    again = start(frame, exported(spark, location, 0, tmp_path / "copy"), rows)
    again.processAllAvailable()
    again.stop()
    assert rows == [(1, 100)]


@pytest.mark.parametrize("interval", [2, 10])
def test_a_new_file_sink_can_be_read_and_compacted_though_its_first_batch_is_a_later_one(
    spark: SparkSession, feed: MakeFeed, tmp_path: Path, conf: dict[str, str], interval: int
) -> None:
    conf["spark.sql.streaming.fileSink.log.compactInterval"] = str(interval)
    apply(spark, conf)
    source = feed(SCHEMA)
    for number in range(3):
        source.add({"id": number})
    query = start(source.dataframe(), tmp_path / "query", [])
    query.processAllAvailable()
    query.stop()
    copy = exported(spark, tmp_path / "query", 2, tmp_path / "copy")
    (copy / ORIGIN).write_text(json.dumps({"savepoint": "/savepoint", "batch": 2}))
    output = str(tmp_path / "output")
    location = SparkFiles.of(spark.sparkContext, str(copy))
    assert check_sink(spark.sparkContext, location, f"FileSink[{output}]", interval) is None
    writer = source.dataframe().writeStream.option("checkpointLocation", str(copy))
    query = writer.start(output, format="json")
    for number in range(3, 6):
        source.add({"id": number})
    query.processAllAvailable()
    query.stop()
    ids = [row.id for row in spark.read.schema(SCHEMA).json(output).collect()]
    assert sorted(ids) == [3, 4, 5]
    log = {path.name for path in (tmp_path / "output/_spark_metadata").glob("[0-9]*")}
    assert ("5.compact" in log) == (interval == 2)


@pytest.mark.parametrize("provider", [pytest.param(HDFS, marks=pytest.mark.slow), ROCKSDB])
def test_state_of_sparks_own_aggregation_comes_along(
    spark: SparkSession, feed: MakeFeed, tmp_path: Path, conf: dict[str, str], provider: str
) -> None:
    conf["spark.sql.streaming.stateStore.providerClass"] = provider
    apply(spark, conf)
    source = feed(SCHEMA)
    totals = source.dataframe().groupBy((F.col("id") % 2).alias("odd")).agg(F.count("*"))
    for number in range(5):
        source.add({"id": number}, {"id": number + 1})
    location = tmp_path / "query"
    query = start(totals, location, [])
    query.processAllAvailable()
    query.stop()
    rows: list[tuple[int, ...]] = []
    again = start(totals, exported(spark, location, 2, tmp_path / "copy"), rows)
    again.processAllAvailable()
    again.stop()
    assert sorted(rows) == [(3, 0, 4), (3, 1, 4), (4, 0, 5), (4, 1, 5)]


@pytest.mark.parametrize("source", ["rate-micro-batch", "rate"])
def test_a_generated_source_goes_on_with_the_next_number(
    spark: SparkSession, tmp_path: Path, source: str
) -> None:
    option = "rowsPerBatch" if source == "rate-micro-batch" else "rowsPerSecond"
    frame = spark.readStream.format(source).option(option, 10).load().select("value")
    location = tmp_path / "query"
    first: list[tuple[int, ...]] = []
    query = start(frame, location, first)
    while not first or max(row[0] for row in first) < 2:
        query.awaitTermination(1)
    query.stop()
    behind = max(row[1] for row in first if row[0] in (0, 1, 2))
    copy = exported(spark, location, 2, tmp_path / "copy")
    rows: list[tuple[int, ...]] = []
    again = start(frame, copy, rows)
    while not rows:
        again.awaitTermination(1)
    again.stop()
    assert min(row[1] for row in rows) == behind + 1
    assert min(row[0] for row in rows) == 3


def test_a_batch_that_spark_has_forgotten_is_refused(
    spark: SparkSession, feed: MakeFeed, tmp_path: Path
) -> None:
    source = feed(SCHEMA)
    source.add({"id": 1})
    query = start(source.dataframe(), tmp_path / "query", [])
    query.processAllAvailable()
    query.stop()
    with pytest.raises(CheckpointError, match=r"batch 7 cannot be read .*offsets/7 is gone"):
        exported(spark, tmp_path / "query", 7, tmp_path / "copy")


def test_hadoops_file_systems_are_read_and_written_as_local_ones(
    spark: SparkSession, tmp_path: Path
) -> None:
    """`viewfs` is one that only the JVM knows; it shows a local folder here."""
    (tmp_path / "below").mkdir()
    hadoop = spark.sparkContext._jsc.hadoopConfiguration()
    hadoop.set("fs.viewfs.mounttable.tests.link./data", tmp_path.as_uri())
    files = SparkFiles.of(spark.sparkContext, "viewfs://tests/data/below")
    assert files.local("x") is None
    files.write("folder/one", b"\x00\xff1")
    files.write("folder/one", b"\x00\xff2")
    assert files.read("folder/one") == b"\x00\xff2"
    assert files.read("folder/two") is None
    assert files.exists("folder")
    assert not files.exists("other")
    assert files.names() == ["folder"]
    assert files.walk() == ["folder/one"]
    assert files.walk("nowhere") == []
    assert (tmp_path / "below/folder/one").read_bytes() == b"\x00\xff2"
