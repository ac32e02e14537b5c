"""Spark columns of tagged rows: the rows of several DataFrames in one, each marked with its stream.

`TaggedRows` is the layout; the tasks split the rows by it.
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.functions import pandas_udf
from pyspark.util import PythonEvalType

from queryable_state.streaming.runtime.columns.tagged_rows import TAG_COLUMN, slot_name
from queryable_state.streaming.spark.types import data_type

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import pyarrow as pa
    from pyspark.sql import Column
    from pyspark.sql.types import StructType

    from queryable_state.streaming.runtime.columns.tagged_rows import TaggedRows


def column(name: str) -> Column:
    """The column of this very name, which may contain any character."""
    return F.col("`" + name.replace("`", "``") + "`")


def mapped_in_arrow(
    frame: DataFrame,
    function: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]],
    schema: StructType,
) -> DataFrame:
    """`frame.mapInArrow(function, schema)` for columns of any name.

    Spark's method reads a name as an expression: it refuses dots and backticks, or resolves
    `a.b` to a field of another column.
    """
    udf: Any = pandas_udf(  # type: ignore[call-overload]  # as Spark's method calls it
        function, returnType=schema, functionType=PythonEvalType.SQL_MAP_ARROW_ITER_UDF
    )
    call = udf(*map(column, frame.columns))
    return DataFrame(frame._jdf.mapInArrow(call._jc, False, None), frame.sparkSession)


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
