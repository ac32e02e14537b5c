"""Selection of rows by index from rows that are divided into several record batches."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Sequence

    from queryable_state.streaming.runtime.columns.row_order import Numbers


def taken_rows(
    parts: Sequence[pa.RecordBatch], firsts: Numbers, rows: Numbers
) -> list[pa.RecordBatch]:
    """Takes rows by index from parts; `firsts` has the index of each part's first row.

    Reads only the requested rows of each part. Arrow's own take would first join all parts.
    """
    if len(parts) == 1:
        return [parts[0].take(pa.array(rows))]
    part_of = np.searchsorted(firsts, rows, side="right") - 1
    by_part = np.argsort(part_of, kind="stable")
    groups = np.split(by_part, np.flatnonzero(np.diff(part_of[by_part])) + 1)
    pieces = []
    for group in groups:
        part = part_of[group[0]]
        pieces.append(parts[part].take(pa.array(rows[group] - firsts[part])))
    places = np.empty(len(rows), dtype=np.int64)
    places[by_part] = np.arange(len(rows))
    joined = pa.Table.from_batches(pieces).combine_chunks()
    found: list[pa.RecordBatch] = joined.take(pa.array(places)).to_batches()
    return found
