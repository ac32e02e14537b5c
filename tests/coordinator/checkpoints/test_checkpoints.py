"""Checkpoints of a job on two servers that write when they are let."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest
from tests.coordinator.drivers import QUERY, driver, subtask_of
from tests.coordinator.writers import LONG_S, WritingDriver, folders, writing_driver
from tests.waiting import until

from queryable_state.server.coordinator import JobConfig
from queryable_state.server.coordinator.roots.job_roots import JobRoot
from queryable_state.wire.errors import (
    CheckpointError,
)

if TYPE_CHECKING:
    from pathlib import Path

    from queryable_state.internal.v1.checkpoint_pb2 import Manifest

from tests.coordinator.checkpoints.background import FIRST, OFTEN, SECOND, in_background, stable


def test_a_checkpoint_is_the_whole_job_as_of_the_newest_committed_batch(tmp_path: Path) -> None:
    with writing_driver(tmp_path) as job:
        job.run(0, 1)
        made = job.coordinator.trigger_checkpoint(QUERY, LONG_S)

        assert (made.checkpoint_id, made.version, made.savepoint) == (1, 1, False)
        assert (made.job_id, made.job_name, made.backend) == (QUERY, "job", "heap")
        assert made.offsets_digest == job.engine.clocks(QUERY, 1).offsets_digest
        assert made.run_epoch == 1
        assert made.triggered_at_ms > 0
        (operator,) = made.operators
        assert [state.state_name for state in operator.states] == ["last"]
        assert [(r.index, r.first_key_group, r.last_key_group) for r in operator.ranges] == [
            (0, 0, 63),
            (1, 64, 127),
        ]
        assert job.root.checkpoints() == [made]
        (report,) = job.reports()
        files = [file for written in operator.ranges for file in written.files]
        assert (report.state, report.version, report.checkpoint_id) == ("completed", 1, 1)
        assert report.bytes == report.new_bytes == sum(file.size_bytes for file in files)
        assert report.path == job.root.path("chk-1")


def test_each_server_is_asked_for_what_it_holds_at_one_version(tmp_path: Path) -> None:
    with writing_driver(tmp_path, JobConfig(checkpoint_interval_ms=0, incremental=False)) as job:
        job.run(0)
        job.coordinator.trigger_checkpoint(QUERY, LONG_S)
        for peer, index in ((job.a, 0), (job.b, 1)):
            (request,) = peer.snapshots
            assert [subtask.index for subtask in request.subtasks] == [index]
            assert (request.version, request.checkpoint_id) == (0, 1)
            assert (request.root, request.directory) == (job.root.uri, "chk-1")
            assert request.shared_directory == ""


def test_commits_trigger_checkpoints_by_themselves(tmp_path: Path) -> None:
    with writing_driver(tmp_path, OFTEN) as job:
        job.run(0)
        job.await_reports("completed")
        job.run(1)
        assert [report.version for report in job.await_reports("completed", 2)] == [1, 0]


def test_the_interval_goes_on_with_the_next_driver(tmp_path: Path) -> None:
    with writing_driver(tmp_path, OFTEN) as job:
        job.run(0)
        job.await_reports("completed")
    with writing_driver(tmp_path, JobConfig(checkpoint_interval_ms=3_600_000)) as job:
        job.run(1)
        assert job.reports() == []
    with writing_driver(tmp_path, OFTEN) as job:
        job.run(2)
        (report, *_) = job.await_reports("completed")
        assert report.checkpoint_id == 2


def test_nothing_newer_becomes_stable_until_every_server_has_cut(tmp_path: Path) -> None:
    with writing_driver(tmp_path) as job:
        job.run(0)
        job.b.may_cut.clear()
        with in_background(job):
            until(lambda: bool(job.a.snapshots and job.b.snapshots))
            job.run(1, 2)
            assert stable(job) == 0
            job.b.may_write.clear()
            job.b.may_cut.set()
            # Cut, and not yet written: what is newer may be folded again.
            until(lambda: stable(job) == 2)
            assert job.reports() == []
            job.b.may_write.set()
        assert [report.version for report in job.reports("completed")] == [0]


def test_batches_commit_while_a_checkpoint_is_written(tmp_path: Path) -> None:
    with writing_driver(tmp_path) as job:
        job.run(0)
        job.a.may_write.clear()
        with in_background(job):
            until(lambda: bool(job.a.snapshots))
            job.run(*range(1, 6))
            assert job.reports() == []
            job.a.may_write.set()
        assert [(r.state, r.version) for r in job.reports()] == [("completed", 0)]


def test_one_checkpoint_is_written_at_a_time(tmp_path: Path) -> None:
    with writing_driver(tmp_path) as job:
        job.run(0)
        job.a.may_write.clear()
        with in_background(job):
            until(lambda: bool(job.a.snapshots))
            with in_background(job):
                with pytest.raises(CheckpointError, match="one is taken at a time"):
                    job.coordinator.trigger_checkpoint(QUERY, 0.05)
                assert len(job.a.snapshots) == 1
                job.a.may_write.set()
        assert [report.checkpoint_id for report in job.reports("completed")] == [2, 1]


@pytest.mark.parametrize("may_be_left", [False, True])
def test_a_checkpoint_waits_for_every_operator_whose_state_is_stored(
    tmp_path: Path, *, may_be_left: bool
) -> None:
    other = subtask_of(0, uid="behind it", p=1)
    with writing_driver(tmp_path) as job:
        epoch = job.begin(0)
        job.open(other, 0)
        job.a.register_states(other, "of the other")
        job.seal(other, 0, 9, epoch=epoch)
        job.run(0)
    config = JobConfig(checkpoint_interval_ms=0, allow_non_restored_state=may_be_left)
    with writing_driver(tmp_path, config) as job:
        # In its first batch nobody can tell what the job has: the stages follow one another.
        job.run(1, committed=False)
        with pytest.raises(CheckpointError, match="'behind it'"):
            job.coordinator.trigger_checkpoint(QUERY, 0.1)
        assert job.root.checkpoints() == []
        job.commit(1)
        if may_be_left:
            assert uids(job) == ["op"]
            return
        with pytest.raises(CheckpointError, match="allow state that is not restored"):
            job.coordinator.trigger_checkpoint(QUERY, 0.1)
        job.begin(2)
        plan = job.open(other, 2)
        assert [file.batch_id for file in plan.changelogs] == [0]
        assert uids(job) == ["behind it", "op"]


def uids(job: WritingDriver) -> list[str]:
    """The operators of a checkpoint taken now."""
    metadata = job.coordinator.trigger_checkpoint(QUERY, LONG_S)
    return sorted(operator.uid for operator in metadata.operators)


def test_a_trigger_waits_until_the_job_is_open(tmp_path: Path) -> None:
    with writing_driver(tmp_path) as job:
        job.begin(0)
        with in_background(job):
            job.run(0)
        assert [report.version for report in job.reports("completed")] == [0]


def test_only_the_newest_checkpoints_and_what_they_need_are_kept(tmp_path: Path) -> None:
    with writing_driver(tmp_path) as job:
        for batch in range(4):
            job.run(batch)
            job.coordinator.trigger_checkpoint(QUERY, LONG_S)
        assert folders(job) == {"chk-3", "chk-4"}
        # The older one is as of batch 2: what came after it leads to the newest batch.
        assert job.root.batches() == [3]


def test_what_a_plan_has_named_stays_until_the_subtask_is_opened(tmp_path: Path) -> None:
    config = JobConfig(checkpoint_interval_ms=0, retained_checkpoints=1)
    with writing_driver(tmp_path, config) as job:
        job.run(0)
        job.coordinator.trigger_checkpoint(QUERY, LONG_S)
        job.run(1)
        job.begin(2)
        # A server that opens a subtask it holds anew: it may read for long.
        plan = job.b.plan(SECOND, 2)
        assert [source.checkpoint_id for source in plan.sources] == [1]
        job.coordinator.trigger_checkpoint(QUERY, LONG_S)
        assert folders(job) == {"chk-1", "chk-2"}
        again = job.b.plan(SECOND, 2)
        assert [source.checkpoint_id for source in again.sources] == [2]
        job.b.open(SECOND, 2, restored=True)
        job.coordinator.trigger_checkpoint(QUERY, LONG_S)
        assert folders(job) == {"chk-3"}


@pytest.mark.parametrize("read", range(1, 7))
def test_a_plan_has_all_changelogs_after_each_source_also_while_retention_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, read: int
) -> None:
    manifests, reads = JobRoot.manifests, itertools.count(1)

    def given_up_before(root: JobRoot, after: int, up_to: int) -> list[Manifest]:
        if next(reads) == read:
            root.keep_checkpoints(root.checkpoints()[:1])
        return manifests(root, after, up_to)

    with writing_driver(tmp_path) as job:
        for batch in range(2):
            job.run(batch)
            job.coordinator.trigger_checkpoint(QUERY, LONG_S)
        job.run(2)
        job.begin(3)
        monkeypatch.setattr(JobRoot, "manifests", given_up_before)
        plan = job.b.plan(SECOND, 3)
        assert 1 in {source.version for source in plan.sources}
        for source in plan.sources:
            later = {file.batch_id for file in plan.changelogs if file.batch_id > source.version}
            assert later == set(range(source.version + 1, 3))


def test_a_restored_job_starts_from_the_checkpoint(tmp_path: Path) -> None:
    with writing_driver(tmp_path) as job:
        job.run(0)
        job.coordinator.trigger_checkpoint(QUERY, LONG_S)
        job.run(1)
    with driver(tmp_path) as after:
        after.begin(2)
        plan = after.open(FIRST, 2)
        assert [(source.checkpoint_id, source.version) for source in plan.sources] == [(1, 0)]
        assert [file.batch_id for file in plan.changelogs] == [1]
