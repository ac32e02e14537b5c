"""The rows of all variants: parquet files written once, and their sums."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

if TYPE_CHECKING:
    from pathlib import Path

    import numpy.typing as npt

SCHEMA = "key string, ones bigint, value bigint, note string, ts timestamp"
FILES_PER_BATCH = 2
FIRST_MS = 1_700_000_000_000
"""Event time of the first row. At 0 it would be late: that is Spark's first watermark."""
BATCH_MS = 60_000
"""Event time between the first rows of two batches, in milliseconds."""


def key_names(keys: int) -> list[str]:
    """Key by number."""
    return [f"sensor_{number}" for number in range(keys)]


@dataclass(frozen=True)
class Totals:
    """Counts, sums and maxima after some batches, by key number; a key without rows has count 0."""

    keys: list[str]
    counts: npt.NDArray[np.int64]
    sums: npt.NDArray[np.int64]
    maxima: npt.NDArray[np.int64]

    def rows(self, step: int) -> dict[str, tuple[int, int, int]]:
        """Count, sum and maximum by key, of each `step`th key."""
        return {
            key: (int(count), int(total), int(highest))
            for key, count, total, highest in zip(
                self.keys[::step],
                self.counts[::step],
                self.sums[::step],
                self.maxima[::step],
                strict=True,
            )
            if count
        }


@dataclass(frozen=True)
class Dataset:
    """Batches of equal size; each batch is `FILES_PER_BATCH` files, one per core."""

    columns: ClassVar[tuple[str, ...]] = ("counts", "sums", "maxima")
    """The names of the figures in `final_rows`."""

    folder: Path
    batches: int
    rows_per_batch: int
    keys: int
    """Rows have random keys; with as many keys as rows each row has a key of its own."""

    def write(self) -> None:
        """Writes the files; Spark reads them in the order of their modification times."""
        self.folder.mkdir()
        names = pa.array(key_names(self.keys))
        for batch in range(self.batches):
            numbers, values = self._batch(batch)
            for part in range(FILES_PER_BATCH):
                rows = slice(part, None, FILES_PER_BATCH)
                keys = names.take(pa.array(numbers[rows]))
                self._write_file(batch, part, keys, values[rows], self._times(batch, rows))

    def _times(self, batch: int, rows: slice) -> npt.NDArray[np.int64] | None:
        """The timestamps of rows, in milliseconds; None: they have none."""
        return None

    def first(self, batches: int, folder: Path) -> Path:
        """Makes a folder with the files of the first batches only."""
        folder.mkdir()
        for path in sorted(self.folder.glob("*.parquet")):
            if int(path.name[:4]) < batches:
                (folder / path.name).hardlink_to(path)
        return folder

    def final_rows(self, batches: int, step: int) -> dict[str, tuple[int, ...]]:
        """The figures by key after the first batches, of each `step`th key."""
        return dict(self.totals(batches).rows(step))

    def totals(self, batches: int) -> Totals:
        """The totals after the first batches."""
        counts = np.zeros(self.keys, dtype=np.int64)
        sums = np.zeros(self.keys, dtype=np.int64)
        maxima = np.full(self.keys, np.iinfo(np.int64).min, dtype=np.int64)
        for batch in range(batches):
            added = self.additions(batch)
            counts += added.counts
            sums += added.sums
            np.maximum(maxima, added.maxima, out=maxima)
        return Totals(key_names(self.keys), counts, sums, maxima)

    def additions(self, batch: int) -> Totals:
        """The totals of one batch alone."""
        counts = np.zeros(self.keys, dtype=np.int64)
        sums = np.zeros(self.keys, dtype=np.int64)
        maxima = np.full(self.keys, np.iinfo(np.int64).min, dtype=np.int64)
        numbers, values = self._batch(batch)
        np.add.at(counts, numbers, 1)
        np.add.at(sums, numbers, values)
        np.maximum.at(maxima, numbers, values)
        return Totals(key_names(self.keys), counts, sums, maxima)

    def _write_file(
        self,
        batch: int,
        part: int,
        keys: pa.Array,
        values: npt.NDArray[np.int64],
        times: npt.NDArray[np.int64] | None = None,
    ) -> None:
        table = pa.table(
            {
                "key": keys,
                "ones": pa.array(np.ones(len(values), dtype=np.int64)),
                "value": pa.array(values),
                "note": pa.array([f"row {value % 97}" for value in values]),
            }
        )
        if times is not None:
            table = table.append_column("ts", pa.array(times).cast(pa.timestamp("ms", "UTC")))
        path = self.folder / f"{batch:04}-{part}.parquet"
        pq.write_table(table, path)
        os.utime(path, (1_700_000_000 + batch, 1_700_000_000 + batch))

    def _batch(self, batch: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        random = np.random.default_rng(batch)
        if self.keys == self.batches * self.rows_per_batch:
            first = batch * self.rows_per_batch
            numbers = random.permutation(np.arange(first, first + self.rows_per_batch))
        else:
            numbers = random.integers(0, self.keys, self.rows_per_batch)
        return numbers, random.integers(-1_000, 1_000_000, self.rows_per_batch)


@dataclass(frozen=True)
class LimitsDataset(Dataset):
    """Batches of one file of limits, `-0`, and one of readings, `-1`.

    A batch has limits for a tenth of the keys, one each, so the order of its rows has no effect. A
    reading belongs to the newest limit of its key, that of its own batch included.
    """

    columns: ClassVar[tuple[str, ...]] = ("limit", "readings", "excess")
    """The newest limit, the number of readings that had one, and the sum of the readings minus
    their limits."""

    def write(self) -> None:
        self.folder.mkdir()
        names = pa.array(key_names(self.keys))
        for batch in range(self.batches):
            for part, (numbers, values) in enumerate(self._both(batch)):
                self._write_file(batch, part, names.take(pa.array(numbers)), values)

    def final_rows(self, batches: int, step: int) -> dict[str, tuple[int, ...]]:
        """The figures of each `step`th key that has a limit."""
        limits, readings, excess = np.zeros((3, self.keys), dtype=np.int64)
        has_limit = np.zeros(self.keys, dtype=np.bool_)
        for batch in range(batches):
            (keys, new_limits), (numbers, values) = self._both(batch)
            limits[keys] = new_limits
            has_limit[keys] = True
            joined = has_limit[numbers]
            numbers, values = numbers[joined], values[joined]
            np.add.at(readings, numbers, 1)
            np.add.at(excess, numbers, values - limits[numbers])
        return {
            name: (int(limits[number]), int(readings[number]), int(excess[number]))
            for number, name in list(enumerate(key_names(self.keys)))[::step]
            if has_limit[number]
        }

    def _both(self, batch: int) -> tuple[tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]], ...]:
        """Key numbers and values of the limits and of the readings."""
        limits = max(self.keys // 10, 1)
        random = np.random.default_rng((batch, 1))
        keys = random.permutation(self.keys)[:limits]
        numbers, values = self._batch(batch)
        return (keys, random.integers(0, 1_000_000, limits)), (numbers[limits:], values[limits:])


@dataclass(frozen=True)
class TimedDataset(Dataset):
    """Rows with timestamps, which ascend from row to row."""

    columns: ClassVar[tuple[str, ...]] = (*Dataset.columns, "newest")
    """The last figure is the newest timestamp of a key, in milliseconds."""

    def _times(self, batch: int, rows: slice) -> npt.NDArray[np.int64]:
        numbers = np.arange(self.rows_per_batch)[rows]
        start_ms = FIRST_MS + batch * BATCH_MS
        return (start_ms + numbers * BATCH_MS // self.rows_per_batch).astype(np.int64)

    def final_rows(self, batches: int, step: int) -> dict[str, tuple[int, ...]]:
        newest = np.zeros(self.keys, dtype=np.int64)
        for batch in range(batches):
            np.maximum.at(newest, self._batch(batch)[0], self._times(batch, slice(None)))
        of_key = dict(zip(key_names(self.keys), newest.tolist(), strict=True))
        totals = super().final_rows(batches, step)
        return {key: (*figures, of_key[key]) for key, figures in totals.items()}
