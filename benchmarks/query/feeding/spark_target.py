"""The writing side of a real job: Structured Streaming with a queryable sink, in a JVM of its own.

A revision is one parquet file and one micro-batch, so that batch id and revision are equal.
"""

from __future__ import annotations

import contextlib
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Self

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.query.dataset import QUERYABLE_NAME
from benchmarks.streaming.session import start_session
from queryable_state.streaming import (
    StreamExecutionEnvironment,
    Types,
    ValueStateDescriptor,
)

if TYPE_CHECKING:
    from types import TracebackType

    from benchmarks.query.dataset import Dataset

SCHEMA = "key string, value string"


class SparkTarget:
    """A running job on local[2,4]: RocksDB, every batch durable before it commits."""

    def __init__(self, dataset: Dataset) -> None:
        self._dataset = dataset
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as stack:
            folder = Path(
                stack.enter_context(tempfile.TemporaryDirectory(prefix="benchmark-spark-"))
            )
            self._source = folder / "source"
            self._source.mkdir()
            self._draft = folder / "draft"
            spark = start_session(folder, {"spark.queryable_state.backend": "rocksdb"})
            stack.callback(spark.stop)
            environment = stack.enter_context(
                StreamExecutionEnvironment.get_execution_environment(spark)
            )
            rows = (
                spark.readStream.schema(SCHEMA)
                .option("maxFilesPerTrigger", 1)
                .parquet(str(self._source))
            )
            descriptor = ValueStateDescriptor(QUERYABLE_NAME, Types.STRING())
            stream = environment.from_dataframe(rows).key_by("key")
            stream.as_queryable_state(QUERYABLE_NAME, descriptor).uid("latest")
            self._job = environment.execute_async(
                "benchmark", checkpoint_location=str(folder / "checkpoint")
            )
            stack.callback(self._job.cancel)
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.close()

    def describe(self) -> dict[str, object]:
        """Job id and the proxy of its state server."""
        return {"job_id": self._job.job_id, "proxies": [self._job.proxy_address()]}

    def write(self, revision: int, numbers: list[int]) -> None:
        """Adds the file of a revision and returns when its batch is committed and readable."""
        columns = {
            "key": [self._dataset.keys[number] for number in numbers],
            "value": [self._dataset.value(number, revision) for number in numbers],
        }
        pq.write_table(pa.table(columns), self._draft)
        self._draft.rename(self._source / f"{revision:06}.parquet")
        self._job.process_all_available()
