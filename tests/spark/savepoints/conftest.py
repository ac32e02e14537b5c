"""Jobs that count readings from one feed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.spark.counting_jobs import Jobs
from tests.spark.functions import READINGS

if TYPE_CHECKING:
    from pathlib import Path

    from tests.spark.conftest import Connect, MakeFeed

    from queryable_state.streaming import StreamExecutionEnvironment


@pytest.fixture
def jobs(env: StreamExecutionEnvironment, feed: MakeFeed, connect: Connect, tmp_path: Path) -> Jobs:
    return Jobs(env, feed(READINGS), connect, tmp_path)
