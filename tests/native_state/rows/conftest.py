"""One Spark session for the tests that compare with Spark's own rows and keys."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.spark_sessions import any_session

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    """A session, of other tests or our own."""
    with any_session() as session:
        yield session
