"""Sinks of a stream."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from queryable_state.streaming.spark.plan.elements_of import elements_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame

    from queryable_state.streaming.graph.elements import Columns


@dataclass(frozen=True, kw_only=True)
class SparkSink:
    """A sink that writes each batch in a format of Spark: `parquet`, `kafka`, `jdbc` ...

    A batch that Spark replays after a failure is written again.
    """

    format: str
    path: str | None = None
    mode: str = "append"
    options: Mapping[str, str] = field(default_factory=dict)
    """Options of the format's `DataFrameWriter`."""

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        """Writes one batch."""
        batch.write.format(self.format).options(**self.options).mode(self.mode).save(self.path)


@dataclass(frozen=True)
class PrintSink:
    """A sink that prints each element on the driver's standard output."""

    columns: Columns
    identifier: str | None = None
    """Printed before each element."""

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        """Prints one batch."""
        prefix = "" if self.identifier is None else f"{self.identifier}> "
        for element in elements_of(batch, self.columns):
            print(f"{prefix}{element}", flush=True)  # noqa: T201 - what print() is for
