"""The rows of the windowed workload, and their aggregates over the live windows."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.streaming.dataset import FILES_PER_BATCH, Dataset, key_names

if TYPE_CHECKING:
    import numpy.typing as npt

SCHEMA: Final = "key string, value bigint, at timestamp"
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
