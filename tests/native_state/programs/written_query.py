"""One streaming query whose checkpoint becomes a fixture: its input, its batches, its failures.

Programs feed a query file by file, so that each file is one batch with data, and name every
setting that shapes the checkpoint. Nothing here needs more than pyspark, so that the programs run
with each Spark version that a fixture is made for.
"""

import json
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark import TaskContext
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from tests.native_state.programs.answers import lines

ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
HDFS_BACKED = "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"
PROVIDER_KEY = "spark.sql.streaming.stateStore.providerClass"
CHANGELOG_KEY = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"

Plan = Callable[[Callable[[str], DataFrame]], DataFrame]
"""Builds the query from its inputs: `plan(read)` calls `read(name)` for each stream it reads."""


class WrittenQuery:
    """A query fed batch by batch; `checkpoint` is what it leaves.

    `inputs` maps each input's name to its schema in DDL. `start` and `stop` may alternate: a
    restart is part of most checkpoints. With `once` each `feed` is a run of one batch: a query that
    works in processing time would run batches without end. With `keeps_output` the rows that
    batch N emits become `output/N.jsonl`.
    """

    def __init__(
        self,
        spark: SparkSession,
        folder: Path,
        *,
        inputs: Mapping[str, str],
        plan: Plan,
        output_mode: str = "update",
        once: bool = False,
        keeps_output: bool = False,
    ) -> None:
        self.checkpoint = folder / "checkpoint"
        self.spark = spark
        self.plan = plan
        self._inputs = inputs
        self._output_mode = output_mode
        self._once = once
        self._input_folder = folder / "input"
        self._output = folder / "output" if keeps_output else None
        self._files = 0
        self._failing = False
        self._failing_partition: int | None = None
        self._query: StreamingQuery | None = None
        for name in inputs:
            (self._input_folder / name).mkdir(parents=True, exist_ok=True)
        if self._output is not None:
            self._output.mkdir()

    def feed(
        self, rows: Sequence[Mapping[str, Any]] = (), **inputs: Sequence[Mapping[str, Any]]
    ) -> None:
        """Adds one file to each input named and waits until all batches it causes are committed.

        Rows without a name go to the only input.
        """
        self.put(rows, **inputs)
        if self._query is None:
            self.start()
        assert self._query is not None
        if self._once:
            self._query.awaitTermination()
            self._query = None
        else:
            self._query.processAllAvailable()

    def put(
        self, rows: Sequence[Mapping[str, Any]] = (), **inputs: Sequence[Mapping[str, Any]]
    ) -> None:
        """Adds one file to each input named, without waiting."""
        named = {next(iter(self._inputs)): rows} if rows else inputs
        for name, added in named.items():
            hidden = self._input_folder / name / f".{self._files}.json"
            hidden.write_text("".join(json.dumps(row) + "\n" for row in added))
            hidden.rename(self._input_folder / name / f"{self._files:06}.json")
            self._files += 1

    def start(self) -> StreamingQuery:
        """Starts the query, as the first run or as a restart."""
        writer = (
            self.plan(self._read)
            .writeStream.outputMode(self._output_mode)
            .foreachBatch(self._write)
            .option("checkpointLocation", str(self.checkpoint))
        )
        if self._once:
            writer = writer.trigger(once=True)
        self._query = writer.start()
        return self._query

    def stop(self) -> None:
        """Stops the run; the next `feed` restarts the query."""
        if self._query is not None:
            self._query.stop()
            self._query = None

    def fail(
        self,
        rows: Sequence[Mapping[str, Any]] = (),
        *,
        partition: int | None = None,
        **inputs: Sequence[Mapping[str, Any]],
    ) -> None:
        """Fails a batch before it is committed, which leaves files that no commit names.

        All partitions have written their state then; with `partition` that one has not. The next
        `feed` restarts the query, which runs the batch again.
        """
        self._failing = True
        self._failing_partition = partition
        try:
            self.feed(rows, **inputs)
        except StreamingQueryException:
            pass
        else:
            raise AssertionError("the batch was to fail")
        finally:
            self._failing = False
        self.stop()

    def repartition(self, partitions: int) -> None:
        """Gives the state of the stopped query another number of partitions, as a new batch."""
        manager = self.spark._streamingCheckpointManager
        manager.repartition(str(self.checkpoint), partitions)

    def wait_for(self, condition: Callable[[], bool], what: str) -> None:
        """Waits until maintenance has done what `condition` looks for."""
        deadline = time.monotonic() + 30
        while not condition():
            if time.monotonic() > deadline:
                raise TimeoutError(what)
            time.sleep(0.05)

    def _read(self, name: str) -> DataFrame:
        return (
            self.spark.readStream.schema(self._inputs[name])
            .option("maxFilesPerTrigger", 1)
            .json(str(self._input_folder / name))
        )

    def _write(self, frame: DataFrame, batch: int) -> None:
        if self._output is not None:
            text = "".join(f"{line}\n" for line in lines(frame))
            (self._output / f"{batch}.jsonl").write_text(text)
            return
        failing = self._failing_partition
        if self._failing and failing is not None:
            frame.foreachPartition(lambda rows: _fail_in(failing, rows))
        frame.write.format("noop").mode("overwrite").save()
        if self._failing:
            raise RuntimeError(f"batch {batch} is to fail")


def _fail_in(partition: int, rows: Iterator[Any]) -> None:
    context = TaskContext.get()
    assert context is not None
    if context.partitionId() == partition:
        raise RuntimeError(f"partition {partition} is to fail")
    for _ in rows:
        pass


@contextmanager
def settings(spark: SparkSession, values: Mapping[str, str]) -> Iterator[None]:
    """Sets session settings for the queries started within."""
    before = {key: spark.conf.get(key, None) for key in values}
    for key, value in values.items():
        spark.conf.set(key, value)
    try:
        yield
    finally:
        for key, old in before.items():
            spark.conf.unset(key) if old is None else spark.conf.set(key, old)


def emptied(folder: Path) -> Path:
    """The folder, newly made."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder
