"""Two executors: any split of the input into batches gives the same outputs and states."""

from __future__ import annotations

from contextlib import closing
from random import Random
from typing import TYPE_CHECKING

from tests.cluster.conftest import start_servers
from tests.spark.feed import Feed
from tests.spark.functions import READINGS
from tests.spark.random_job import (
    SCHEMA,
    expected_of,
    found_in,
    random_rows,
    random_split,
    run_job,
)

from queryable_state.client.blocking import QueryableStateClient

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from queryable_state.streaming import StreamExecutionEnvironment


def test_a_random_split_gives_the_result_of_plain_python(
    env: StreamExecutionEnvironment, spark: SparkSession, tmp_path: Path
) -> None:
    start_servers(env, Feed(spark, tmp_path / "warm-up", READINGS))
    random = Random(3)
    rows = random_rows(random, 60), random_rows(random, 40)
    batches = random_split(random, rows[0]), random_split(random, rows[1])
    feeds = Feed(spark, tmp_path / "first", SCHEMA), Feed(spark, tmp_path / "second", SCHEMA)
    env.set_parallelism(2)
    job, emitted = run_job(env, spark, "random", feeds, batches)
    states, outputs = expected_of(*rows)
    assert emitted == outputs
    host, _, port = job.proxy_address().rpartition(":")
    with closing(QueryableStateClient(host, int(port), timeout_s=20)) as client:
        assert found_in(client, job) == states
