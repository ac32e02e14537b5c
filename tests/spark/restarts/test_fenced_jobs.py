"""Jobs that another driver takes over, as their users hear of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.spark.counting_jobs import KEYS, readings
from tests.spark.functions import COUNTS, READINGS, CountPerKey
from tests.waiting import until

from queryable_state.client.blocking import QueryableStateClient
from queryable_state.server.checkpoint.file_systems.storage_factory import storage_of
from queryable_state.server.checkpoint.layout import beside
from queryable_state.server.checkpoint.state_root import StateRoot
from queryable_state.streaming import RestartStrategies
from queryable_state.wire.errors import Reason, SupersededError

if TYPE_CHECKING:
    from pathlib import Path

    from tests.spark.conftest import MakeFeed, NewEnvironment


def take_over(root: str) -> None:
    """As the first batch of another driver does."""
    StateRoot(root, storage_of(root)).allocate_epoch(b"another driver")


def test_idle_jobs_and_queries_that_are_taken_over_end_and_are_answered_no_more(
    new_environment: NewEnvironment, feed: MakeFeed, tmp_path: Path
) -> None:
    """Without a checkpoint, and though failed jobs are restarted."""
    source, other = feed(READINGS), feed(READINGS)
    for each in (source, other):
        each.add(*readings())
    env = new_environment(checkpoint_directory=str(tmp_path / "state"))
    env.set_restart_strategy(RestartStrategies.fixed_delay_restart(10, 100))
    env.from_dataframe(source.dataframe()).key_by("sensor").process(CountPerKey(), COUNTS).uid("c")
    job = env.execute_async("counting")
    own = env.from_dataframe(other.dataframe()).key_by("sensor").process(CountPerKey(), COUNTS)
    writer = own.uid("c").to_dataframe().writeStream.format("noop").outputMode("update")
    query = writer.option("checkpointLocation", str(tmp_path / "spark")).start()
    job.process_all_available()
    query.processAllAvailable()
    host, _, port = job.proxy_address().rpartition(":")
    with QueryableStateClient(host, int(port)) as client:
        for job_id in (job.job_id, query.id):
            assert client.get_kv_state(job_id, "count", KEYS[0]).value() == 1
        take_over(job.state_root)
        take_over(beside(str(tmp_path / "spark")))
        until(lambda: not job.query.isActive and not query.isActive)
        with pytest.raises(SupersededError) as ended:
            job.await_termination(30)
        assert ended.value.reason == Reason.FENCED
        assert job.restarts == 0
        for job_id in (job.job_id, query.id):
            with pytest.raises(SupersededError, match="another driver has taken over"):
                client.get_kv_state(job_id, "count", KEYS[0])
