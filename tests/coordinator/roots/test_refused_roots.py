"""State roots that a job cannot go on from, and the settings that allow it."""

from __future__ import annotations

import logging
import shutil
from typing import TYPE_CHECKING

import pytest
from tests.coordinator.drivers import QUERY, driver, subtask_of

from queryable_state.internal.v1 import checkpoint_pb2, coordinator_pb2
from queryable_state.server.checkpoint import layout
from queryable_state.server.coordinator import JobConfig
from queryable_state.wire.errors import (
    CheckpointError,
    RestoreMismatchError,
)

if TYPE_CHECKING:
    from pathlib import Path


from tests.coordinator.roots.durable import FIRST, run


def test_a_missing_root_is_refused_and_named(tmp_path: Path) -> None:
    with driver(tmp_path) as job:
        run(job, 0)
    shutil.rmtree(job.root.uri)
    with driver(tmp_path) as job, pytest.raises(CheckpointError) as refusal:
        job.begin(1)
    assert job.root.uri in str(refusal.value)


def test_a_missing_root_may_be_allowed_and_marks_what_is_missing(tmp_path: Path) -> None:
    with driver(tmp_path, JobConfig(allow_missing_state=True)) as job:
        job.begin(5)
        plan = job.open(FIRST, 5)
        assert plan.durable
        assert plan.from_first_batch
        assert plan.complete_since_batch == 5


def test_a_lost_batch_is_refused_and_named(tmp_path: Path) -> None:
    with driver(tmp_path) as job:
        for batch in range(4):
            run(job, batch)
    job.root.storage.delete_tree(job.root.path(layout.batch_folder(1)))
    with driver(tmp_path) as job:
        for batch in range(4):
            job.engine.plan(QUERY, batch)
        with pytest.raises(CheckpointError, match=r"batch 1, operator 'op'"):
            job.begin(4)


def test_a_root_of_another_job_is_refused(tmp_path: Path) -> None:
    with driver(tmp_path) as job:
        record = checkpoint_pb2.RootRegistrations(
            format_version=1, job_id=b"o" * 16, job_name="other"
        )
        job.root.write_registrations(1, record)
        with pytest.raises(RestoreMismatchError, match="'other'"):
            job.begin(0)


def test_a_job_that_is_refused_takes_no_epoch_from_the_one_that_has_the_root(
    tmp_path: Path,
) -> None:
    with driver(tmp_path / "one") as living:
        run(living, 0)
        root = living.root
        with driver(tmp_path / "other", JobConfig(state_root=root.uri)) as other:
            query_id, run_id = other.engine.start("other", checkpoint_location="/tmp/elsewhere")
            other.engine.plan(query_id, 0)
            with pytest.raises(RestoreMismatchError, match="'job'"):
                other.peer().begin(query_id, run_id, 0)
        assert root.newest_epoch() == 1


def test_other_key_groups_are_refused_naming_both(tmp_path: Path) -> None:
    with driver(tmp_path) as job:
        job.begin(0)
        job.open(FIRST, 0)
        job.peer().register_states(FIRST, "count")
        job.commit(0)
    with driver(tmp_path) as job:
        job.begin(1)
        subtask = subtask_of(0, most=64)
        job.peer().assign(subtask)
        with pytest.raises(RestoreMismatchError, match=r"128 key groups .* set to 64"):
            job.peer().plan(subtask, 1)


def test_files_that_could_not_be_used_are_told_with_the_way_around(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with driver(tmp_path) as job:
        job.begin(0)
        job.peer().assign(FIRST)
        request = coordinator_pb2.OpenSubtaskRequest(
            subtask=FIRST,
            server_id="a",
            restored=True,
            checkpoint_id=3,
            broken=[coordinator_pb2.BrokenFile(path="chk-4/x", problem="fails its checksum")],
        )
        with caplog.at_level(logging.ERROR):
            job.peer().ask("OpenSubtask", request)
    (record,) = [r for r in caplog.records if "chk-4/x" in r.getMessage()]
    assert "checkpoint 3" in record.getMessage()
