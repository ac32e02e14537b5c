"""Timestamps of elements, from their event-time column."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc


def timestamps(column: pa.Array) -> list[int | None]:
    """A timestamp column in milliseconds since the epoch, rounded down; null is None."""
    micros = column.cast(pa.timestamp("us")).cast(pa.int64())
    millis = pc.floor(pc.divide(micros.cast(pa.float64()), 1000.0)).cast(pa.int64())
    found: list[int | None] = millis.to_pylist()
    return found
