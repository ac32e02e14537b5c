"""`python -m benchmarks.native.spark_process FOLDER`: queries of plain Structured Streaming.

Takes commands as lines and answers each with one line of JSON, so that Spark has a process of its
own. Its checkpoints are those of a query that knows nothing of this package.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from benchmarks.signals import exit_on_sigterm
from benchmarks.streaming.session import start_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

# The keys of `benchmarks.capacity.dataset`: Spark's longs wrap as that arithmetic does.
_KEY = "format_string('sensor_%012x', (n * -7046029254386353131) & 281474976710655)"
_FILES = 8
_RUNNING_KEYS = 20_000
_RUNNING_ROWS = 5_000


class Queries:
    """The queries of one Spark session."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        settings = {
            "spark.sql.ansi.enabled": "false",
            "spark.sql.streaming.stateStore.maintenanceInterval": "5s",
        }
        self._spark: SparkSession = start_session(folder, settings)
        self._running: StreamingQuery | None = None

    def write(self, keys: int) -> dict[str, Any]:
        """Aggregates every key once; returns the checkpoint and the seconds."""
        source, checkpoint = self._folder / "source", self._folder / "large"
        rows = self._spark.range(0, keys, 1, _FILES).withColumnRenamed("id", "n")
        rows.write.parquet(str(source))
        stream = self._spark.readStream.schema("n BIGINT").parquet(str(source))
        began = time.perf_counter()
        query = self._start(stream, checkpoint, {"availableNow": True})
        query.awaitTermination()
        return {"checkpoint": str(checkpoint), "seconds": time.perf_counter() - began}

    def read(self, checkpoint: str, keys: list[str]) -> dict[str, Any]:
        """Looks up keys one after the other with Spark's state reader; returns milliseconds."""
        times = []
        for key in keys:
            began = time.perf_counter()
            frame = self._spark.read.format("statestore").load(checkpoint)
            (row,) = frame.where(F.col("key.key") == key).collect()
            times.append((time.perf_counter() - began) * 1000)
            assert row["value"]["count"] == 1
        return {"ms": times}

    def run(self, partitions: int, warm_up: int) -> dict[str, Any]:
        """Starts a query that runs batch after batch, and waits for the first ones; returns its
        checkpoint."""
        checkpoint = self._folder / f"running-{partitions}"
        self._spark.conf.set("spark.sql.shuffle.partitions", partitions)
        rows = (
            self._spark.readStream.format("rate-micro-batch")
            .option("rowsPerBatch", _RUNNING_ROWS)
            .load()
            .selectExpr(f"value % {_RUNNING_KEYS} AS n")
        )
        self._running = self._start(rows, checkpoint, {"processingTime": "0 seconds"})
        self.batches(warm_up)
        return {"checkpoint": str(checkpoint)}

    def batches(self, count: int) -> dict[str, Any]:
        """Waits for so many further batches; returns their durations in milliseconds."""
        query = self._running
        assert query is not None
        progress = query.lastProgress
        first = progress.batchId + 1 if progress else 0
        while (progress := query.lastProgress) is None or progress.batchId < first + count:
            time.sleep(0.05)
        return {
            "ms": [
                each.durationMs["triggerExecution"]
                for each in query.recentProgress
                if first <= each.batchId < first + count
            ]
        }

    def stop(self) -> dict[str, Any]:
        """Stops the query that runs."""
        assert self._running is not None
        # It writes an error for each task of the batch that it gives up.
        self._spark.sparkContext.setLogLevel("OFF")
        self._running.stop()
        self._spark.sparkContext.setLogLevel("ERROR")
        self._running = None
        return {}

    def close(self) -> None:
        """Stops all queries and the session."""
        if self._running is not None:
            self._running.stop()
        self._spark.stop()

    def _start(self, rows: DataFrame, checkpoint: Path, trigger: dict[str, Any]) -> StreamingQuery:
        sums = rows.selectExpr(f"{_KEY} AS key", "n").groupBy("key")
        return (
            sums.agg(F.count("*"), F.sum("n"))
            .writeStream.outputMode("update")
            .format("noop")
            .option("checkpointLocation", str(checkpoint))
            .trigger(**trigger)
            .start()
        )


def main() -> None:
    exit_on_sigterm()
    queries = Queries(Path(sys.argv[1]))
    try:
        for line in sys.stdin:
            name, *arguments = json.loads(line)
            sys.stdout.write(json.dumps(getattr(queries, name)(*arguments)) + "\n")
            sys.stdout.flush()
    finally:
        queries.close()


if __name__ == "__main__":
    main()
