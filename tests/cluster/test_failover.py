"""Two executors: state on both, and what is answered when one is killed."""

from __future__ import annotations

import os
import signal
import threading
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING

import pytest
from tests.cluster.conftest import SENSORS, executors, feed_all, start_servers
from tests.spark.feed import Feed
from tests.spark.functions import COUNTS, READINGS, CountPerKey
from tests.waiting import until

from queryable_state.client.blocking import QueryableStateClient
from queryable_state.wire.errors import StateLostError

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from queryable_state.streaming import JobClient, StreamExecutionEnvironment


def client_of(address: str) -> QueryableStateClient:
    host, _, port = address.rpartition(":")
    return QueryableStateClient(host, int(port), timeout_s=30)


def owners_of(env: StreamExecutionEnvironment, job: JobClient) -> set[str]:
    """Ids of the servers that own the counts."""
    coordinator = env._running_application().coordinator
    return {owner.server_id for owner in coordinator.location(job.job_id, "count").owners}


@pytest.fixture
def source(spark: SparkSession, tmp_path: Path) -> Feed:
    return Feed(spark, tmp_path / "feed", READINGS)


def start_counting(env: StreamExecutionEnvironment, source: Feed) -> JobClient:
    """A job that has counted two readings of every sensor, on both executors."""
    stream = env.from_dataframe(source.dataframe()).key_by("sensor")
    stream.process(CountPerKey(), COUNTS).uid("counts")
    feed_all(source)
    feed_all(source)
    job = env.execute_async("counting")
    job.process_all_available()
    return job


def test_a_killed_executor_loses_its_range_and_says_so(
    env: StreamExecutionEnvironment, spark: SparkSession, source: Feed, tmp_path: Path
) -> None:
    start_servers(env, Feed(spark, tmp_path / "warm-up", READINGS))
    job = start_counting(env, source)
    before = owners_of(env, job)
    assert len(before) == 2
    with ExitStack() as stack:
        clients = {
            address: stack.enter_context(closing(client_of(address)))
            for address in job.proxy_addresses()
        }
        # Either proxy answers every key, whoever owns it.
        for client in clients.values():
            found = client.get_kv_states(job.job_id, "count", SENSORS)
            assert [state and state.value() for state in found] == [2] * len(SENSORS)

        killed, pid = next(iter(executors(spark).items()))
        os.kill(pid, signal.SIGKILL)
        until(lambda: set(clients) & set(job.proxy_addresses()) != set(clients))
        (surviving,) = set(clients) & set(job.proxy_addresses())
        client = clients[surviving]
        found_meanwhile: list[object] = []

        def read_meanwhile() -> None:
            found_meanwhile.append(
                client.get_kv_states(job.job_id, "count", SENSORS, allow_incomplete=True)
            )

        # It waits within its deadline until the range has an owner again.
        reader = threading.Thread(target=read_meanwhile)
        reader.start()
        feed_all(source)
        job.process_all_available()
        reader.join(timeout=60)
        assert found_meanwhile
        assert before & owners_of(env, job) != before
        assert killed not in executors(spark)

        refusals, whole, partial = [], set(), set()
        for sensor in SENSORS:
            try:
                whole.add(client.get_kv_state(job.job_id, "count", sensor).value())
            except StateLostError as error:
                refusals.append(error.complete_since_batch)
                state = client.get_kv_state(job.job_id, "count", sensor, allow_incomplete=True)
                partial.add((state.value(), state.info.complete_since_batch))
        # The third batch, of id 2, counted on everywhere; what came before is lost on one range.
        assert set(refusals) == {2}
        assert partial == {(1, 2)}
        assert whole == {3}
