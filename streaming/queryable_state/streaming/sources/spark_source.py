"""Sources of a program as descriptions: streaming formats of Spark."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


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

    def dataframe(self, session: SparkSession) -> DataFrame:
        """The source as a streaming DataFrame."""
        reader = session.readStream.format(self.format).options(**self.options)
        if self.schema is not None:
            reader = reader.schema(self.schema)
        return reader.load(self.path)
