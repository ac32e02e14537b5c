"""A source whose rows come in files."""

from __future__ import annotations

import json
import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

KEYS = [f"sensor-{number}" for number in range(40)]


def rows(keys: Sequence[str], temperature: float = 20.0) -> list[dict[str, Any]]:
    """One reading of each sensor."""
    return [{"sensor": key, "temperature": temperature} for key in keys]


class Feed:
    """Writes files of rows, at a pace that may change."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True)
        self._folder = folder
        self._files = 0
        self._lock = threading.Lock()
        self._changed = threading.Condition()
        self._every_s: float | None = None
        self._rows: Sequence[dict[str, Any]] = ()
        self._stopped = False
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def dataframe(self, spark: SparkSession, schema: str, files_a_batch: int) -> DataFrame:
        """The stream."""
        stream = spark.readStream.schema(schema).option("maxFilesPerTrigger", files_a_batch)
        return stream.json(str(self._folder))

    def every(self, every_s: float | None, what: Sequence[dict[str, Any]]) -> None:
        """Writes these rows at this interval; None: no rows."""
        with self._changed:
            self._every_s, self._rows = every_s, what
            self._changed.notify()

    def add(self, what: Sequence[dict[str, Any]]) -> Path:
        """Writes one file."""
        with self._lock:
            path = self._folder / f"{self._files:05}.json"
            self._files += 1
            self.rewrite(path, what)
        return path

    def rewrite(self, path: Path, what: Sequence[dict[str, Any]]) -> None:
        """Gives a file other rows."""
        draft = self._folder / f".{path.name}"
        draft.write_text("".join(json.dumps(each) + "\n" for each in what))
        draft.rename(path)

    def close(self) -> None:
        """Stops writing."""
        with self._changed:
            self._stopped = True
            self._changed.notify()
        self._thread.join()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait(self._every_s)
                if self._stopped:
                    return
                due = self._rows if self._every_s is not None else ()
            if due:
                self.add(due)
