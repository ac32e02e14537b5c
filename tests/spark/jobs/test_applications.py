"""Environments that end, servers that are killed, and applications that start anew."""

from __future__ import annotations

import json
import os
import signal
from typing import TYPE_CHECKING

import pytest
from tests.spark.functions import COUNTS, READINGS, CountPerKey

from queryable_state.streaming import EmbeddedRocksDBStateBackend
from queryable_state.wire.errors import StateLostError

if TYPE_CHECKING:
    from pathlib import Path

    from tests.spark.conftest import Connect, MakeFeed, NewEnvironment
    from tests.spark.feed import Feed

    from queryable_state.streaming import JobClient, StreamExecutionEnvironment


def reading(sensor: str) -> dict[str, object]:
    return {"sensor": sensor, "temperature": 1.0}


def count(
    env: StreamExecutionEnvironment, source: Feed, checkpoint: Path | None = None
) -> JobClient:
    """A job that counts readings, when it has processed what there is."""
    stream = env.from_dataframe(source.dataframe()).key_by("sensor")
    stream.process(CountPerKey(), COUNTS).uid("counts")
    job = env.execute_async(
        "counting", checkpoint_location=None if checkpoint is None else str(checkpoint)
    )
    job.process_all_available()
    return job


@pytest.mark.slow
def test_state_without_changelog_is_lost_with_its_application_and_said_to_be(
    new_environment: NewEnvironment, feed: MakeFeed, connect: Connect, tmp_path: Path
) -> None:
    source = feed(READINGS)
    source.add(reading("a"))
    count(new_environment(changelog="off"), source, tmp_path / "checkpoint")
    source.add(reading("a"))
    job = count(new_environment(changelog="off"), source, tmp_path / "checkpoint")
    client = connect(job)
    with pytest.raises(StateLostError) as caught:
        client.get_kv_state(job.job_id, "count", "a")
    assert caught.value.complete_since_batch == 1
    state = client.get_kv_state(job.job_id, "count", "a", allow_incomplete=True)
    assert state.value() == 1


def test_a_killed_state_server_is_replaced_by_the_next_task(
    new_environment: NewEnvironment, feed: MakeFeed, connect: Connect, tmp_path: Path
) -> None:
    env = new_environment()
    source = feed(READINGS)
    source.add(reading("a"))
    job = count(env, source)
    (told,) = tmp_path.glob("queryable-state-*/server.json")
    before = json.loads(told.read_text())
    os.kill(before["pid"], signal.SIGKILL)
    source.add(reading("a"))
    job.process_all_available()
    assert json.loads(told.read_text())["server_id"] != before["server_id"]
    state = connect(job).get_kv_state(job.job_id, "count", "a", allow_incomplete=True)
    assert (state.value(), state.info.complete_since_batch) == (1, 1)


def test_jobs_of_one_application_have_backends_of_their_own(
    new_environment: NewEnvironment, feed: MakeFeed, connect: Connect, tmp_path: Path
) -> None:
    env = new_environment(backend="heap")
    source = feed(READINGS)
    source.add(reading("a"))
    first = count(env, source, tmp_path / "first")
    first.cancel()
    env.set_state_backend("rocksdb")
    assert isinstance(env.get_state_backend(), EmbeddedRocksDBStateBackend)
    second = count(env, source, tmp_path / "second")
    assert connect(second).get_kv_state(second.job_id, "count", "a").value() == 1
    assert connect(first).get_kv_state(first.job_id, "count", "a").value() == 1
    assert list(tmp_path.glob("queryable-state-*/**/CURRENT"))
