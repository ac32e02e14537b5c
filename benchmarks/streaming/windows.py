"""The windowed workload: rows with times, and count, sum and maximum by key and window."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import functions as F

from benchmarks.streaming.dataset import FILES_PER_BATCH, Dataset, key_names
from benchmarks.streaming.session import source, start_noop
from queryable_state.client import blocking
from queryable_state.streaming import Time, count_rows, max_of, sum_of
from queryable_state.streaming.windows.sliding_windows import SlidingEventTimeWindows
from queryable_state.streaming.windows.tumbling_windows import TumblingEventTimeWindows

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    import numpy.typing as npt
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from queryable_state.streaming import DataStream, JobClient, OperatorStream

SCHEMA: Final = "key string, value bigint, at timestamp"
QUERYABLE_NAME: Final = "windows"
SLIDE_MS: Final = 5_000
"""Time that a batch covers, the size of tumbling windows and the slide of sliding ones."""
SLIDES: Final = 4
"""Size of a sliding window in slides."""
LAG_MS: Final = 10_000
"""Rows are out of order by less than this."""
DELAY_MS: Final = 122_500
"""Delay of the watermark: 24 windows of a key are live. The watermark is never at the end of a
window, where Spark would emit it one batch later."""
_START_MS: Final = 1_700_000_000_000


@dataclass(frozen=True)
class WindowsDataset(Dataset):
    """Batches whose rows have times; the greatest time of each batch is known.

    Its figures by key are sums over the windows that are live in the last batch and after it.
    """

    columns: ClassVar[tuple[str, ...]] = (
        *("tumbling_counts", "tumbling_sums", "tumbling_maxima"),
        *("sliding_counts", "sliding_sums", "sliding_maxima"),
    )

    def write(self) -> None:
        self.folder.mkdir()
        names = pa.array(key_names(self.keys))
        for batch in range(self.batches):
            numbers, values, times = self._timed(batch)
            at = pa.array(times * 1000).cast(pa.timestamp("us", tz="UTC"))
            table = pa.table({"key": names.take(pa.array(numbers)), "value": values, "at": at})
            for part in range(FILES_PER_BATCH):
                path = self.folder / f"{batch:04}-{part}.parquet"
                rows = pa.array(np.arange(part, len(times), FILES_PER_BATCH))
                pq.write_table(table.take(rows), path)
                os.utime(path, (1_700_000_000 + batch, 1_700_000_000 + batch))

    def final_rows(self, batches: int, step: int) -> dict[str, tuple[int, ...]]:
        """The figures of each `step`th key."""
        tumbling, sliding = self._live(batches, 1), self._live(batches, SLIDES)
        return {
            name: tuple(int(column[number]) for column in (*tumbling, *sliding))
            for number, name in list(enumerate(key_names(self.keys)))[::step]
        }

    def _live(self, batches: int, slides: int) -> tuple[npt.NDArray[np.int64], ...]:
        counts, sums = np.zeros((2, self.keys), dtype=np.int64)
        maxima = np.full(self.keys, np.iinfo(np.int64).min, dtype=np.int64)
        for batch in range(batches):
            numbers, values, times = self._timed(batch)
            for slide in range(slides):
                live = times - times % SLIDE_MS - slide * SLIDE_MS >= live_from_ms(batches)
                np.add.at(counts, numbers[live], 1)
                np.add.at(sums, numbers[live], values[live])
                np.maximum.at(maxima, numbers[live], values[live])
        return counts, sums, maxima

    def _timed(
        self, batch: int
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Key numbers, values and times of a batch."""
        numbers, values = self._batch(batch)
        random = np.random.default_rng((batch, 2))
        first = _START_MS + batch * SLIDE_MS
        times = first + random.integers(-LAG_MS, SLIDE_MS, self.rows_per_batch)
        times[0] = first + SLIDE_MS - 1
        return numbers, values, times


def live_from_ms(batches: int) -> int:
    """A time behind the watermark after the last of these batches: windows that start from there
    on are live."""
    return _START_MS + batches * SLIDE_MS - DELAY_MS


def native(spark: SparkSession, data: Path, checkpoint: Path, slides: int) -> StreamingQuery:
    """`groupBy(key, window).agg()` in append mode: each window is emitted at its end."""
    size, slide = f"{slides * SLIDE_MS} milliseconds", f"{SLIDE_MS} milliseconds"
    totals = (
        rows_of(spark, data)
        .groupBy("key", F.window("at", size, slide))
        .agg(
            F.count("*").alias("count"),
            F.sum("value").alias("total"),
            F.max("value").alias("highest"),
        )
    )
    return start_noop(totals, checkpoint, "append")


NATIVE: Final[dict[str, Callable[[SparkSession, Path, Path], StreamingQuery]]] = {
    "native-tumbling": lambda spark, data, checkpoint: native(spark, data, checkpoint, 1),
    "native-sliding": lambda spark, data, checkpoint: native(spark, data, checkpoint, SLIDES),
}


def native_state(state: DataFrame, batches: int) -> dict[str, list[int]]:
    """Count, sum and maximum over the live windows of each key, in Spark's state."""
    count, total, highest = (
        F.col(f"value.{name}") for name in state.schema["value"].dataType.names
    )
    from_s = live_from_ms(batches) / 1000
    rows = (
        state.where(F.col("key.window.start") >= F.lit(from_s).cast("timestamp"))
        .groupBy(F.col("key.key").alias("key"))
        .agg(F.sum(count), F.sum(total), F.max(highest))
        .collect()
    )
    return {row.key: list(row[1:]) for row in rows}


def own(rows: DataStream, slides: int) -> OperatorStream:
    """The vectorised aggregation of windows, with queryable state."""
    slide = Time.milliseconds(SLIDE_MS)
    assigner: Any = TumblingEventTimeWindows.of(slide)
    if slides > 1:
        assigner = SlidingEventTimeWindows.of(Time.milliseconds(slides * SLIDE_MS), slide)
    windowed = rows.key_by("key").window(assigner)
    return windowed.aggregate_columns(
        queryable_name=QUERYABLE_NAME,
        count=count_rows(),
        total=sum_of("value"),
        highest=max_of("value"),
    )


OWN: Final[dict[str, Callable[[DataStream], OperatorStream]]] = {
    "tumbling": lambda rows: own(rows, 1),
    "sliding": lambda rows: own(rows, SLIDES),
}


def own_state(job: JobClient, keys: Sequence[str], batches: int) -> dict[str, list[int]]:
    """Count, sum and maximum over the live windows of the keys, read by the blocking client."""
    host, port = job.proxy_address().rsplit(":", 1)
    found = {}
    with blocking.QueryableStateClient(host, int(port)) as client:
        for key in keys:
            windows = client.get_windows(
                job.job_id, QUERYABLE_NAME, key, start=live_from_ms(batches)
            )
            values = [state.get() for state in windows.values()]
            counts, totals, maxima = zip(*values, strict=True)
            found[key] = [sum(counts), sum(totals), max(maxima)]
    return found


def rows_of(spark: SparkSession, data: Path) -> DataFrame:
    """The rows with a watermark."""
    return source(spark, data, SCHEMA).withWatermark("at", f"{DELAY_MS} milliseconds")
