"""The internal event-time column of DataFrames in a plan."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from queryable_state.streaming.graph.elements import free_name
from queryable_state.streaming.runtime.columns.event_time import (
    EVENT_TIME_COLUMN,
    EVENT_TIME_FIELD,
)
from queryable_state.streaming.spark.plan.columns import column
from queryable_state.streaming.spark.types import data_type
from queryable_state.wire.schema.types import Kind

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from queryable_state.streaming.graph.elements import Columns


def internal_time(frame: DataFrame) -> list[Column]:
    """The internal column, if a DataFrame has it."""
    return [column(EVENT_TIME_COLUMN)] if EVENT_TIME_COLUMN in frame.columns else []


def with_internal_time(frame: DataFrame, columns: Columns) -> DataFrame:
    """The rows of a stream with the internal column, which is null if they have no timestamps."""
    if columns.has_internal_time:
        return frame
    return frame.withColumn(EVENT_TIME_COLUMN, _millis(columns))


def with_watermark(frame: DataFrame, columns: Columns, delay_ms: int) -> DataFrame:
    """The rows of a stream with a watermark on their timestamps, which its columns contain."""
    name = free_name("__watermark", frame.columns)
    at = column(columns.timestamps)
    if columns.has_internal_time:
        at = F.timestamp_millis(at)
    elif columns.type_of(columns.timestamps, "event time").kind != Kind.TIMESTAMP:
        at = F.timestamp_millis(_millis(columns))
    watermarked = frame.withColumn(name, at).withWatermark(name, f"{delay_ms} milliseconds")
    return watermarked.drop(name)


def _millis(columns: Columns) -> Column:
    """The timestamps of elements in milliseconds, rounded down."""
    name = columns.timestamps
    if not name:
        return F.lit(None).cast(data_type(EVENT_TIME_FIELD.type))
    at = column(name)
    if columns.type_of(name, "event time").kind == Kind.TIMESTAMP:
        return F.unix_millis(at)
    # Spark converts a TIMESTAMP_NTZ as a whole only by way of the session's time zone.
    days = F.unix_date(at.cast("date")).cast("bigint")
    seconds = (days * 24 + F.hour(at)) * 3_600 + F.minute(at) * 60
    of_minute = F.floor(F.date_part(F.lit("SECOND"), at) * 1_000).cast("bigint")
    return seconds * 1_000 + of_minute
