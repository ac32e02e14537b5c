"""The batches of a query: their input and clocks, as Spark's log of offsets has them."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

_FILES = "logOffset"


@dataclass(frozen=True)
class Batch:
    """One planned batch."""

    files: range
    """Numbers of its input files; empty: a batch without input."""
    timestamp_ms: int = 0
    watermark_ms: int | None = None
    """As Spark has it, 0 before the first; None: Spark runs no part in it."""


BatchOf = Callable[[int], Batch]


def a_file_each(batch_id: int) -> Batch:
    """The batches of a job without Spark: each has one file."""
    return Batch(range(batch_id, batch_id + 1))


class BatchLog:
    """The batches of a checkpoint location; each is read once, when it is asked for first.

    A batch that is planned anew after a loss has other clocks, so a log is not kept over one.
    """

    def __init__(self, spark: Path) -> None:
        self._offsets = spark / "offsets"
        self._batches: dict[int, Batch] = {}

    def __call__(self, batch_id: int) -> Batch:
        """A planned batch. Raises FileNotFoundError if it is not planned."""
        if batch_id not in self._batches:
            _, metadata, *offsets = (self._offsets / str(batch_id)).read_text().splitlines()
            clocks = json.loads(metadata)
            # The log of a query from a savepoint begins with the last batch of that.
            has_before = (self._offsets / str(batch_id - 1)).exists()
            before = self(batch_id - 1).files.stop if has_before else 0
            self._batches[batch_id] = Batch(
                range(before, files_in(offsets)),
                clocks["batchTimestampMs"],
                clocks["batchWatermarkMs"],
            )
        return self._batches[batch_id]


def files_in(offsets: list[str]) -> int:
    """How many files have been read up to a batch, by its lines in the log.

    There are several lines of the input if a plan reads it several times.
    """
    counts = [json.loads(line)[_FILES] + 1 for line in offsets if _FILES in line]
    return max(map(int, counts), default=0)


def planned_files(spark: Path) -> int:
    """How many files of the input are in planned batches."""
    numbers = [int(path.name) for path in (spark / "offsets").glob("[0-9]*")]
    if not numbers:
        return 0
    lines = (spark / "offsets" / str(max(numbers))).read_text().splitlines()
    return files_in(lines[2:])
