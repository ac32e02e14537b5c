"""Sources of a program as descriptions: streaming formats of Spark."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from queryable_state.wire.errors import InvalidRequestError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from queryable_state.streaming.graph.elements import Columns

_EVENT_TIME: Final = {"kafka": "timestamp", "rate": "timestamp", "rate-micro-batch": "timestamp"}
"""The columns with the timestamps of the records, by format."""


@dataclass(frozen=True, kw_only=True)
class SparkSource:
    """A source that Spark reads as a stream: `kafka`, `rate`, `json`, `parquet`, `text` ...

    Its elements are rows of the format's columns.
    """

    format: str
    path: str | None = None
    schema: StructType | str | None = None
    """Columns of the format, if it does not know them: a DDL string or a Spark schema."""
    options: Mapping[str, str] = field(default_factory=dict)
    """Options of the format's `DataStreamReader`, such as `kafka.bootstrap.servers`."""
    is_bounded: bool = False
    """True: the job reads what is there when it starts, and ends."""
    event_time: str | None = None
    """The column with the timestamps of the records, for a watermark strategy; None: `timestamp`
    of the formats `kafka` and `rate`, else the records have none."""

    def dataframe(self, session: SparkSession) -> DataFrame:
        """The source as a streaming DataFrame."""
        reader = session.readStream.format(self.format).options(**self.options)
        if self.schema is not None:
            reader = reader.schema(self.schema)
        return reader.load(self.path)

    def timed(self, columns: Columns) -> Columns:
        """The columns with the event-time column of this source, unless they have one.

        Raises InvalidRequestError if `event_time` is not a column of timestamps.
        """
        name = self.event_time or _EVENT_TIME.get(self.format.lower())
        if name is None or columns.event_time is not None:
            return columns
        found = columns.type_of(name, "event_time of a source")
        timed = replace(columns, event_time=name)
        if not timed.timestamps:
            raise InvalidRequestError(
                f"event_time of a source: column {name!r} is {found}, not a timestamp: name "
                "another column, or add with_timestamp_assigner(...) to the watermark strategy"
            )
        return timed
