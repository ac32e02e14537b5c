"""A source whose batches the test decides: one file, one batch."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession


class Feed:
    """Rows as JSON files, each of which becomes one batch of the stream."""

    def __init__(self, spark: SparkSession, folder: Path, schema: str) -> None:
        folder.mkdir(parents=True)
        self._spark = spark
        self._folder = folder
        self._schema = schema
        self._files = 0

    def add(self, *rows: dict[str, Any]) -> None:
        """The rows of the next batch."""
        draft = self._folder / f".{self._files}"
        draft.write_text("".join(json.dumps(row) + "\n" for row in rows))
        # The source takes files by age, at a resolution of milliseconds.
        age = 1_700_000_000 + self._files
        os.utime(draft, (age, age))
        draft.rename(self._folder / f"{self._files:04}.json")
        self._files += 1

    def dataframe(self) -> DataFrame:
        """The stream."""
        return (
            self._spark.readStream.schema(self._schema)
            .option("maxFilesPerTrigger", 1)
            .json(str(self._folder))
        )
