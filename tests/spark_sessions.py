"""Spark session for tests that compare with Spark's own functions, whichever tests run beside."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession


@contextmanager
def any_session() -> Iterator[SparkSession]:
    """The session that other tests have now, left running, or one of our own."""
    sql = pytest.importorskip("pyspark.sql")
    shared = sql.SparkSession.getActiveSession()
    if shared is not None:
        yield shared
        return
    # The settings of the session that starts the JVM would be system properties of all later ones.
    pytest.importorskip("pyspark").SparkContext._ensure_initialized()
    own = (
        sql.SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .getOrCreate()
    )
    yield own
    own.stop()
