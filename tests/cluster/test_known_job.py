"""Two executors: random questions of every kind, whose answers are known.

While batches commit, while an executor is killed, and after everything has begun again.
"""

from __future__ import annotations

import os
import signal
from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from tests.chaos.checks.reads import What
from tests.chaos.jobs.spark_job import KnownSparkJob
from tests.chaos.jobs.workload import JOB_NAME, KEYS, SHARES, TOTALS
from tests.cluster.conftest import executors, start_servers
from tests.spark.feed import Feed
from tests.spark.functions import READINGS

from queryable_state.client.blocking import QueryableStateClient
from queryable_state.streaming import StreamExecutionEnvironment
from queryable_state.streaming.spark.application import SparkApplication

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

SEED = 31


@pytest.mark.timeout(900)
@pytest.mark.parametrize("backend", [pytest.param("heap", marks=pytest.mark.wide), "rocksdb"])
def test_every_question_is_answered_right_over_a_killed_executor_and_a_restart(
    spark: SparkSession, tmp_path: Path, backend: str
) -> None:
    env = new_environment(spark, backend)
    start_servers(env, Feed(spark, tmp_path / "warm-up", READINGS))
    known = KnownSparkJob(tmp_path / "job", SEED)
    known.start(env, spark)
    known.run(5)
    with known.asking() as asking:
        known.run(3)
        asking.wait(100)
    known.keep(asking)
    assert len({read.server for read in asking.reads if read.server}) == 2

    with known.asking() as asking:
        os.kill(next(iter(executors(spark).values())), signal.SIGKILL)
        known.run(4)
        asking.wait(100)
    known.keep(asking)
    token = first_page(known)
    known.job.cancel()

    # Coordinator and servers are new, and there is no input: all is answered from what is stored.
    committed = known.committed
    known.start(new_environment(spark, backend), spark)
    with known.asking() as asking:
        asking.wait(150)
    known.keep(asking)
    assert known.committed <= committed + 1, "only the first batch of a job with timers"
    assert {read.what for read in asking.reads if not read.refused} == set(What)
    check_idle_answers(known, token)
    known.judge()


def new_environment(spark: SparkSession, backend: str) -> StreamExecutionEnvironment:
    """One whose coordinator and state servers are new."""
    for query in spark.streams.active:
        query.stop()
    SparkApplication.close_all()
    env = StreamExecutionEnvironment.get_execution_environment(spark)
    return env.set_state_backend(backend).set_parallelism(4)


def client_of(known: KnownSparkJob) -> QueryableStateClient:
    host, _, port = known.job.proxy_address().rpartition(":")
    return QueryableStateClient(host, int(port), timeout_s=30)


def first_page(known: KnownSparkJob) -> bytes:
    """The token of a scan that is left after ten keys."""
    with closing(client_of(known)) as client, client.scan(JOB_NAME, TOTALS, limit=10) as scan:
        assert len(list(scan)) == 10
        return scan.page_token


def check_idle_answers(known: KnownSparkJob, token: bytes) -> None:
    """One of each question, by a blocking client, as of the last batch."""
    history, batch = known.history(), known.committed
    with closing(client_of(known)) as client:
        cut = client.multi_get(JOB_NAME, TOTALS, KEYS, one_cut=True)
        assert cut.version == batch
        assert {key: list(state.value()) for key, state in cut.found()} == {
            key: value for key in KEYS if (value := history.value(TOTALS, key, batch))
        }
        # The first batch of a job with timers has no input.
        with client.scan(JOB_NAME, TOTALS, page_token=token, allow_newer=True) as scan:
            rest = [key for key, _ in scan]
        with client.scan(JOB_NAME, TOTALS, keys_only=True) as scan:
            assert [key for key, _ in scan][10:] == rest
            assert scan.complete
        shares = history.value(SHARES, "key_1", batch)
        assert client.size(JOB_NAME, SHARES, "key_1").elements == len(shares)
        (entry, count), *_ = shares
        assert client.get_map_entry(JOB_NAME, SHARES, "key_1", entry).value() == count
        assert client.contains(JOB_NAME, SHARES, "key_1", entry)
        explained = client.explain(JOB_NAME, TOTALS, "key_1")
        assert explained.state is not None
        assert explained.state.info.version == batch
        measured = client.measure(JOB_NAME, TOTALS)
        assert measured.complete
        assert len(measured.parts) == 4
