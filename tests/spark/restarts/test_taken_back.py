"""Batches of our own jobs that were taken back: their files in Spark's checkpoint are removed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.spark.functions import READINGS
from tests.spark.restarts.test_durable_jobs import client_of, count, reading, started

from queryable_state.client import Consistency
from queryable_state.wire.errors import JobError, Reason, VersionGoneError

if TYPE_CHECKING:
    from tests.spark.conftest import MakeFeed, NewEnvironment

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("is_covered", [False, True])
def test_a_job_that_is_set_back_answers_the_batch_it_is_set_back_to_or_is_refused(
    new_environment: NewEnvironment, feed: MakeFeed, tmp_path: Path, is_covered: bool
) -> None:
    """Never the batches that were taken back, also before it has run another one. A checkpoint of
    one of these covers the changelogs before it, so that the state cannot follow."""
    directory = str(tmp_path / "state")
    env = new_environment(checkpoint_directory=directory)
    source = feed(READINGS)
    for _ in range(5):
        source.add(reading("a"))
    job = count(env, source)
    if is_covered:
        job.trigger_checkpoint()
    with client_of(job) as client:
        seen = client.get_kv_state(job.job_id, "count", "a").info
    assert seen.version == 4
    job.cancel().result()
    env.close()
    spark = Path(job.state_root) / "spark"
    for log in ("offsets", "commits", "sources/0"):
        for batch in ("3", "4"):
            (spark / log / batch).unlink()
            (spark / log / f".{batch}.crc").unlink(missing_ok=True)
    for taken_back in sorted(tmp_path.glob("feed-*/000[34].json")):
        taken_back.rename(taken_back.with_name(f".{taken_back.name}"))

    env = new_environment(checkpoint_directory=directory)
    job = started(env, source)
    if is_covered:
        with pytest.raises(JobError, match="set back further than the state can follow") as refused:
            job.await_termination(60)
        assert refused.value.reason == Reason.INCOMPATIBLE_STATE
        return
    with client_of(job) as client:
        state = client.get_kv_state(job.job_id, "count", "a", timeout_s=60)
        assert (state.value(), state.info.version) == (3, 2)
        for older in (Consistency.at_least(seen), Consistency.at_least(seen.version)):
            with pytest.raises(VersionGoneError, match="set back from batch 4, and began again"):
                client.get_kv_state(job.job_id, "count", "a", consistency=older, timeout_s=60)
        source.add(reading("a"))
        job.process_all_available()
        state = client.get_kv_state(job.job_id, "count", "a")
        assert (state.value(), state.info.version) == (4, 3)
        for _ in range(2):
            source.add(reading("a"))
            job.process_all_available()
        later = Consistency.at_least(seen.version)
        state = client.get_kv_state(job.job_id, "count", "a", consistency=later)
        assert state.value() == state.info.version + 1
        with pytest.raises(VersionGoneError, match="was taken back"):
            client.get_kv_state(job.job_id, "count", "a", consistency=Consistency.at_least(seen))
