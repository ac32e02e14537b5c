"""Spark columns of tagged rows: the rows of several DataFrames in one, each marked with its stream.

`TaggedRows` is the layout; the tasks split the rows by it.
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from queryable_state.streaming.runtime.columns.tagged_rows import TAG_COLUMN, slot_name
from queryable_state.streaming.spark.types import data_type

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, DataFrame

    from queryable_state.streaming.runtime.columns.tagged_rows import TaggedRows


def column(name: str) -> Column:
    """The column of this very name, which may contain any character."""
    return F.col("`" + name.replace("`", "``") + "`")


def tagged_union(
    parts: Sequence[tuple[DataFrame, Sequence[tuple[int, Sequence[Column]]]]], layout: TaggedRows
) -> DataFrame:
    """The rows of all parts as tagged rows.

    A part is a DataFrame and the streams it supplies: the number of each stream, and its columns
    in the order of the layout. A DataFrame is read once, whatever the number of its streams.
    """
    frames = []
    for frame, streams in parts:
        rows = [_slots(stream, columns, layout) for stream, columns in streams]
        if len(rows) == 1:
            frames.append(frame.select(*rows[0]))
        else:
            frames.append(frame.select(F.inline(F.array(*(F.struct(*row) for row in rows)))))
    return reduce(lambda one, other: one.union(other), frames)


def stream_of(frame: DataFrame, stream: int, layout: TaggedRows) -> DataFrame:
    """The rows of one stream, under the names of its columns."""
    rows = frame.where(F.col(TAG_COLUMN) == stream)
    fields, places = layout.streams[stream], layout.places[stream]
    return rows.select(
        *(
            F.col(slot_name(place)).alias(field.name)
            for field, place in zip(fields, places, strict=True)
        )
    )


def _slots(stream: int, columns: Sequence[Column], layout: TaggedRows) -> list[Column]:
    """The tag and the slots of a row of a stream; unused slots are null."""
    placed = dict(zip(layout.places[stream], columns, strict=True))
    slots = [
        placed.get(number, F.lit(None)).cast(data_type(info)).alias(slot_name(number))
        for number, info in enumerate(layout.slots)
    ]
    return [F.lit(stream).alias(TAG_COLUMN), *slots]
