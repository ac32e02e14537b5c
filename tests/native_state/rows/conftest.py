"""One Spark session for the tests that compare with Spark's own rows and keys."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    """The session that other tests have now, left running, or one of our own."""
    sql = pytest.importorskip("pyspark.sql")
    shared = sql.SparkSession.getActiveSession()
    if shared is not None:
        yield shared
        return
    own = (
        sql.SparkSession.builder.master("local[1]")
        .config("spark.ui.enabled", "false")
        .getOrCreate()
    )
    yield own
    own.stop()
