"""Spark's Kafka connector."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from queryable_state.streaming.testing.kafka.jars import read_jars, resolve

CONNECTOR_PACKAGE: Final = "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0"
"""The connector's Maven coordinate, for `spark.jars.packages`. That of Spark 4.3.0 is not
published; that of 4.2.0 runs with PySpark 4.3.0."""

_PINNED: Final = Path(__file__).with_name("connector.jars")


def connector_jars(folder: Path | None = None, *, ivy_settings: Path | None = None) -> str:
    """The connector's jars, downloaded once: a value of `spark.jars`.

    It saves the look-up that `spark.jars.packages` does at every start. Raises JarsUnavailableError
    if they cannot be downloaded.
    """
    jars = resolve(read_jars(_PINNED), folder, ivy_settings=ivy_settings)
    return ",".join(map(str, jars))
