"""One local Spark session for plain Structured Streaming queries."""

from __future__ import annotations

import pytest
from tests.spark.conftest import spark

__all__ = ["spark"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "tests/native_state/live/" in item.path.as_posix():
            item.add_marker(pytest.mark.spark)
