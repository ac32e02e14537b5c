"""Any split of the input into batches gives the same outputs and states in Spark."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import pytest
from tests.spark.random_job import (
    SCHEMA,
    expected_of,
    found_in,
    random_rows,
    random_split,
    run_job,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from tests.spark.conftest import Connect, MakeFeed

    from queryable_state.streaming import StreamExecutionEnvironment


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_a_random_split_gives_the_result_of_plain_python(
    env: StreamExecutionEnvironment,
    spark: SparkSession,
    feed: MakeFeed,
    connect: Connect,
    seed: int,
) -> None:
    """Union, connect, broadcast, initial state, and operators by different keys in one job."""
    random = Random(seed)
    rows = random_rows(random, 60), random_rows(random, 40)
    batches = random_split(random, rows[0]), random_split(random, rows[1])
    env.set_parallelism(2)
    job, emitted = run_job(env, spark, f"random {seed}", (feed(SCHEMA), feed(SCHEMA)), batches)
    states, outputs = expected_of(*rows)
    assert emitted == outputs
    assert found_in(connect(job), job) == states
