"""State roots of jobs that were cancelled or failed."""

from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest
from tests.coordinator.checkpoints.savepoints import LONG_S
from tests.coordinator.drivers import QUERY, subtask_of
from tests.coordinator.writers import writing_driver
from tests.waiting import until

from queryable_state.server.coordinator import JobConfig
from queryable_state.wire.errors import CheckpointError

if TYPE_CHECKING:
    from pathlib import Path


def test_cancelling_removes_the_root_where_that_is_wished_for(tmp_path: Path) -> None:
    config = JobConfig(checkpoint_interval_ms=0, delete_on_cancellation=True)
    with writing_driver(tmp_path, config) as job:
        job.run(0)
        job.coordinator.trigger_checkpoint(QUERY, LONG_S)
        job.engine.end(QUERY)
        job.coordinator.job_cancelled(QUERY)
        assert not job.root.exists()
        assert job.root.newest_epoch() == 0


def test_cancelling_gives_up_the_checkpoint_under_way(tmp_path: Path) -> None:
    config = JobConfig(checkpoint_interval_ms=0, delete_on_cancellation=True)
    with writing_driver(tmp_path, config) as job, ThreadPoolExecutor(1) as threads:
        job.run(0)
        job.a.may_cut.clear()
        made = threads.submit(job.coordinator.trigger_checkpoint, QUERY, LONG_S)
        # The other one has written: what it has not by then it may still write.
        until(lambda: bool(job.a.snapshots) and job.b.writes == 1)
        job.engine.end(QUERY)
        job.coordinator.job_cancelled(QUERY)
        with pytest.raises(CheckpointError, match="is cancelled"):
            made.result(LONG_S)
        assert job.root.storage.walk(job.root.uri) == []


def test_cancelling_takes_spark_s_part_along_where_it_is_in_the_root(tmp_path: Path) -> None:
    root = tmp_path / "checkpoints" / "job"
    config = JobConfig(checkpoint_interval_ms=0, delete_on_cancellation=True, state_root=str(root))
    with writing_driver(tmp_path, config) as job:
        job.engine.start("job", query_id=QUERY, checkpoint_location=f"file:{root}/spark")
        job.restarted()
        (root / "spark").mkdir(parents=True)
        (root / "spark" / "metadata").write_text("Spark's")
        job.begin(0)
        job.open(subtask_of(0), 0)
        job.engine.end(QUERY)
        job.coordinator.job_cancelled(QUERY)
        assert not root.exists()


def test_a_job_that_failed_keeps_its_root(tmp_path: Path) -> None:
    config = JobConfig(checkpoint_interval_ms=0, delete_on_cancellation=True)
    with writing_driver(tmp_path, config) as job:
        job.run(0)
        job.engine.end(QUERY, error="a user function failed")
        job.coordinator.job_cancelled(QUERY)
        assert job.root.manifest(0) is not None


def test_cancelling_keeps_the_root_by_default(tmp_path: Path) -> None:
    with writing_driver(tmp_path) as job:
        job.run(0)
        made = job.coordinator.trigger_checkpoint(QUERY, LONG_S)
        job.engine.end(QUERY)
        job.coordinator.job_cancelled(QUERY)
        assert job.root.checkpoints() == [made]


def test_a_discarded_job_loses_its_root_whatever_its_configuration(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Its caller removes Spark's checkpoint, so no WARNING asks a person to."""
    with writing_driver(tmp_path) as job:
        job.run(0)
        job.engine.end(QUERY)
        with caplog.at_level(logging.WARNING):
            job.coordinator.job_cancelled(QUERY, discards=True)
        assert job.root.storage.walk(job.root.uri) == []
        assert "remove that folder" not in caplog.text
