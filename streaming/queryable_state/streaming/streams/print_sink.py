"""The sink that prints elements in the driver."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def print_rows(batch: DataFrame, batch_id: int) -> None:
    """Prints each row of a batch."""
    for row in batch.collect():
        print(row, flush=True)  # noqa: T201 - what print() is for
