"""A job whose state is durable: what its root says after each batch, and to the next driver."""

from __future__ import annotations

import logging
import shutil
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.coordinator.drivers import QUERY, driver, subtask_of
from tests.coordinator.writers import until

from queryable_state.internal.v1 import checkpoint_pb2, coordinator_pb2
from queryable_state.server.checkpoint import layout
from queryable_state.server.coordinator import JobConfig
from queryable_state.server.coordinator.batches.manifests import Manifests
from queryable_state.server.coordinator.recovery.root_loader import RootLoader
from queryable_state.wire.errors import (
    CheckpointError,
    JobError,
    PlacementError,
    RestoreMismatchError,
    RetryLaterError,
    SupersededError,
)

if TYPE_CHECKING:
    from tests.coordinator.drivers import Driver

    from queryable_state.server.coordinator.roots.job_roots import JobRoot

FIRST, SECOND = subtask_of(0), subtask_of(1)


def run(job: Driver, batch: int, *, subtasks: tuple[int, ...] = (0, 1)) -> None:
    """One whole batch: begun, opened where needed, sealed, committed."""
    epoch = job.begin(batch)
    for index in subtasks:
        subtask = subtask_of(index)
        job.open(subtask, batch)
        job.seal(subtask, batch, attempt=10 * batch + index, epoch=epoch)
    job.commit(batch)


def tokens(manifest: checkpoint_pb2.Manifest | None) -> list[tuple[int, int, int, int]]:
    """First and last key group, epoch and attempt of each entry."""
    assert manifest is not None
    return [
        (f.first_key_group, f.last_key_group, f.token.run_epoch, f.token.task_attempt)
        for f in manifest.changelogs
    ]


def test_a_committed_batch_has_a_manifest_of_what_was_reported(tmp_path: Path) -> None:
    with driver(tmp_path) as job:
        run(job, 0)
        assert tokens(job.root.manifest(0)) == [(0, 63, 1, 0), (64, 127, 1, 1)]
        assert job.root.registrations() is not None


def test_the_begin_tells_where_state_is_kept(tmp_path: Path) -> None:
    with driver(tmp_path, JobConfig(backend="rocksdb", inline_bytes=7)) as job:
        job.engine.plan(QUERY, 0)
        storage = job.peer().begin(QUERY, job.run_id, 0).storage
        assert storage.root == layout.beside(job.location)
        assert (storage.backend, storage.inline_bytes) == ("rocksdb", 7)


def test_without_a_lasting_place_nothing_is_durable(tmp_path: Path) -> None:
    with driver(tmp_path, JobConfig(changelog=False)) as job:
        job.begin(3)
        plan = job.open(FIRST, 3)
        assert not plan.durable
        assert not job.root.exists()


def test_a_report_counts_before_a_higher_token_nobody_acknowledged(tmp_path: Path) -> None:
    with driver(tmp_path) as job:
        run(job, 0)
        epoch = job.begin(1)
        for index in (0, 1):
            job.seal(subtask_of(index), 1, attempt=20 + index, epoch=epoch)
        job.file(FIRST, 1, attempt=99, epoch=epoch)
        job.commit(1)
        assert tokens(job.root.manifest(1)) == [(0, 63, 1, 20), (64, 127, 1, 21)]


def test_the_seal_of_a_server_that_died_is_found_in_the_folder(tmp_path: Path) -> None:
    with driver(tmp_path) as job:
        run(job, 0)
        epoch = job.begin(1)
        job.file(FIRST, 1, attempt=20, epoch=epoch)
        job.file(FIRST, 1, attempt=21, epoch=epoch)
        job.seal(SECOND, 1, attempt=22, epoch=epoch)
        job.commit(1)
        assert tokens(job.root.manifest(1)) == [(0, 63, 1, 21), (64, 127, 1, 22)]


def test_an_owner_that_lacks_what_counts_must_load_it_anew(tmp_path: Path) -> None:
    with driver(tmp_path) as job:
        run(job, 0)
        epoch = job.begin(1)
        job.file(FIRST, 1, attempt=20, epoch=epoch)
        job.commit(1)
        assert job.peer().dropped == [QUERY]
        job.begin(2)
        plan = job.open(FIRST, 2)
        assert [f.token.task_attempt for f in plan.changelogs] == [0, 20]


def test_a_batch_that_changed_nothing_has_an_empty_manifest(tmp_path: Path) -> None:
    with driver(tmp_path) as job:
        run(job, 0)
        job.begin(1)
        job.commit(1)
        assert tokens(job.root.manifest(1)) == []


def test_the_next_driver_goes_on_with_the_ids_and_a_higher_epoch(tmp_path: Path) -> None:
    with driver(tmp_path) as job:
        epoch = job.begin(0)
        job.open(FIRST, 0)
        (state,) = job.peer().register_states(FIRST, "count")
        job.seal(FIRST, 0, attempt=1, epoch=epoch)
        job.commit(0)
    with driver(tmp_path) as job:
        assert job.begin(1) == epoch + 1
        plan = job.open(FIRST, 1)
        assert [s.state_id for s in plan.states] == [state.state_id]
        assert plan.from_first_batch
        assert [f.batch_id for f in plan.changelogs] == [0]
        assert plan.complete_since_batch == 0
        assert job.coordinator.states() == [], "nobody has registered it here yet"
        (again,) = job.peer().register_states(FIRST, "count")
        assert again == state


def test_a_batch_committed_just_before_the_driver_died_gets_its_manifest(tmp_path: Path) -> None:
    with driver(tmp_path) as job:
        run(job, 0)
        epoch = job.begin(1)
        job.file(FIRST, 1, attempt=20, epoch=epoch)
    with driver(tmp_path) as job:
        job.engine.plan(QUERY, 1)
        job.begin(2)
        assert tokens(job.root.manifest(1)) == [(0, 63, 1, 20)]
        assert [f.batch_id for f in job.open(FIRST, 2).changelogs] == [0, 1]


@pytest.mark.parametrize("again", [False, True])
def test_a_damaged_changelog_of_a_committed_batch_is_not_passed_over(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, *, again: bool
) -> None:
    with driver(tmp_path) as job:
        epoch = job.begin(0)
        job.file(FIRST, 0, 1, epoch=epoch)
        damaged = Path(job.root.path(job.file(SECOND, 0, 2, epoch=epoch).path))
        damaged.write_bytes(damaged.read_bytes()[:-1])
        if again:
            # What another attempt has written of the same offsets stands for it.
            job.file(SECOND, 0, 1, epoch=epoch)
    with driver(tmp_path) as job:
        job.engine.plan(QUERY, 0)
        if again:
            job.begin(1)
            assert tokens(job.root.manifest(0)) == [(0, 63, 1, 1), (64, 127, 1, 1)]
            return
        with pytest.raises(CheckpointError, match=str(damaged)):
            job.begin(1)
    with driver(tmp_path, JobConfig(allow_missing_state=True)) as job:
        job.engine.plan(QUERY, 0)
        job.begin(1)
        assert tokens(job.root.manifest(0)) == [(0, 63, 1, 1)]
        assert "continues without them" in caplog.text


def test_what_was_sealed_of_the_batch_that_begins_again_is_staged(tmp_path: Path) -> None:
    with driver(tmp_path) as job:
        run(job, 0)
        epoch = job.begin(1)
        job.file(FIRST, 1, attempt=20, epoch=epoch)
        job.file(SECOND, 1, attempt=21, epoch=epoch)
    with driver(tmp_path) as job:
        job.begin(1)
        plan = job.open(FIRST, 1)
        assert [f.token.task_attempt for f in plan.staged] == [20]
        assert [f.batch_id for f in plan.changelogs] == [0]


def test_a_run_that_a_sink_skips_commits_what_the_run_before_sealed(tmp_path: Path) -> None:
    with driver(tmp_path) as job:
        run(job, 0)
        epoch = job.begin(1)
        job.file(FIRST, 1, attempt=20, epoch=epoch)
    with driver(tmp_path) as job:
        job.begin(1)
        job.open(FIRST, 1)
        job.commit(1)
        assert tokens(job.root.manifest(1)) == [(0, 63, 1, 20)]
        assert not job.peer().dropped, "it was loaded when the store was opened"


def test_a_commit_found_out_while_the_next_run_reads_the_root_is_not_missed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with driver(tmp_path) as job:
        run(job, 0)
        job.seal(FIRST, 1, 20, epoch=job.begin(1))
        load = RootLoader.load

        def found_out_meanwhile(*args: Any, **kwargs: Any) -> JobRoot:
            loaded = load(*args, **kwargs)
            job.commit(1)
            return loaded

        monkeypatch.setattr(RootLoader, "load", found_out_meanwhile)
        _, job.run_id = job.engine.start("job", query_id=QUERY)
        with pytest.raises(RetryLaterError, match="read again"):
            job.begin(2)
        job.begin(2)
        assert [file.batch_id for file in job.open(FIRST, 2).changelogs] == [0, 1]


def test_files_of_other_offsets_are_neither_staged_nor_committed(tmp_path: Path) -> None:
    with driver(tmp_path) as job:
        run(job, 0)
        epoch = job.begin(1)
        job.file(FIRST, 1, attempt=20, epoch=epoch)
    with driver(tmp_path) as job:
        job.begin(1, offsets=b"other")
        assert not job.open(FIRST, 1).staged
        job.commit(1)
        assert tokens(job.root.manifest(1)) == []


def test_another_parallelism_is_given_the_parts_of_each_file(tmp_path: Path) -> None:
    with driver(tmp_path) as job:
        run(job, 0)
    with driver(tmp_path) as job:
        job.begin(1)
        plan = job.open(subtask_of(1, p=3), 1)
        assert [(f.first_key_group, f.last_key_group) for f in plan.changelogs] == [
            (43, 63),
            (64, 85),
        ]


def test_only_the_owner_is_given_a_plan(tmp_path: Path) -> None:
    with driver(tmp_path) as job:
        job.begin(0)
        assert job.peer("a").assign(FIRST) == "a"
        with pytest.raises(PlacementError):
            job.peer("b").plan(FIRST, 0)


def test_a_store_is_not_opened_empty_where_state_is_durable(tmp_path: Path) -> None:
    with driver(tmp_path) as job:
        job.begin(0)
        job.peer().assign(FIRST)
        with pytest.raises(RetryLaterError, match="loaded by a plan"):
            job.peer().open(FIRST, 0)


def test_a_reopened_durable_subtask_has_lost_nothing(tmp_path: Path) -> None:
    with driver(tmp_path) as job:
        run(job, 0)
        job.begin(1)
        request = coordinator_pb2.RegisterServerRequest(
            server_id="b", executor_id="executor of a", backend_address=job.peer().address
        )
        job.peer().ask("RegisterServer", request)
        job.peer("b")
        assert job.peer("b").assign(FIRST) == "b"
        plan = job.peer("b").plan(FIRST, 1)
        assert [f.batch_id for f in plan.changelogs] == [0]
        assert job.peer("b").open(FIRST, 1, restored=True) == 0


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


def test_a_lost_manifest_is_made_again(tmp_path: Path) -> None:
    with driver(tmp_path) as job:
        for batch in range(3):
            run(job, batch)
    job.root.storage.delete(job.root.path(layout.manifest_file(1, 1)))
    with driver(tmp_path) as job:
        for batch in range(3):
            job.engine.plan(QUERY, batch)
        job.begin(3)
        assert tokens(job.root.manifest(1)) == [(0, 63, 1, 10), (64, 127, 1, 11)]


def test_a_damaged_manifest_is_made_again_and_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with driver(tmp_path) as job:
        for batch in range(3):
            run(job, batch)
    damaged = Path(job.root.path(layout.manifest_file(1, 1)))
    damaged.write_bytes(damaged.read_bytes()[:-1])
    with driver(tmp_path) as job:
        for batch in range(3):
            job.engine.plan(QUERY, batch)
        job.begin(3)
        assert tokens(job.root.manifest(1)) == [(0, 63, 1, 10), (64, 127, 1, 11)]
        assert [file.batch_id for file in job.open(FIRST, 3).changelogs] == [0, 1, 2]
    assert [r for r in caplog.records if r.levelname == "ERROR" and str(damaged) in r.getMessage()]


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


def test_a_query_set_back_is_followed_as_far_as_the_root_reaches(tmp_path: Path) -> None:
    with driver(tmp_path) as job:
        for batch in range(4):
            run(job, batch)
    with driver(tmp_path) as job:
        job.begin(2, offsets=b"other")
        assert [f.batch_id for f in job.open(FIRST, 2).changelogs] == [0, 0, 1, 1][::2]
        assert not job.open(SECOND, 2).staged
        assert job.root.batches() == [0, 1, 2]
        job.commit(2)
    with driver(tmp_path) as job:
        job.engine.plan(QUERY, 2, offsets=b"other")
        job.begin(3)
        assert [f.batch_id for f in job.open(FIRST, 3).changelogs] == [0, 1]


def test_a_driver_that_begins_beside_a_living_one_removes_nothing_of_it(tmp_path: Path) -> None:
    with driver(tmp_path) as living, driver(tmp_path) as late:
        for batch in range(4):
            run(living, batch)
        # The late one's query had looked where to begin before the other committed more.
        late.engine.commit(QUERY, 3)
        with pytest.raises(SupersededError, match="another driver"):
            late.begin(2)
        assert [manifest.batch_id for manifest in living.root.manifests(-1)] == [0, 1, 2, 3]
        run(living, 4)
    with driver(tmp_path) as job:
        job.begin(5)
        assert [f.batch_id for f in job.open(FIRST, 5).changelogs] == [0, 1, 2, 3, 4]


def test_a_query_set_back_too_far_is_refused(tmp_path: Path) -> None:
    with driver(tmp_path) as job:
        run(job, 0)
        run(job, 1)
        job.root.write_checkpoint(checkpoint_of(1, version=1))
    with driver(tmp_path) as job, pytest.raises(JobError, match="reaches back to 2"):
        job.begin(1)
    assert job.root.checkpoints()


def checkpoint_of(number: int, *, version: int) -> checkpoint_pb2.CheckpointMetadata:
    return checkpoint_pb2.CheckpointMetadata(
        format_version=1,
        checkpoint_id=number,
        job_id=QUERY,
        version=version,
        run_epoch=9,
        operators=[
            checkpoint_pb2.OperatorSnapshot(
                uid="op",
                parallelism=2,
                max_parallelism=128,
                ranges=[
                    checkpoint_pb2.RangeSnapshot(first_key_group=0, last_key_group=63, index=0),
                    checkpoint_pb2.RangeSnapshot(first_key_group=64, last_key_group=127, index=1),
                ],
            )
        ],
    )


def test_the_newest_checkpoint_comes_first_and_changelogs_follow_the_oldest(
    tmp_path: Path,
) -> None:
    with driver(tmp_path) as job:
        for batch in range(5):
            run(job, batch)
        job.root.write_checkpoint(checkpoint_of(1, version=1))
        job.root.write_checkpoint(checkpoint_of(2, version=3))
    with driver(tmp_path) as job:
        job.begin(5)
        plan = job.open(FIRST, 5)
        assert [source.version for source in plan.sources] == [3, 1]
        assert [[r.index for r in source.ranges] for source in plan.sources] == [[0], [0]]
        assert [f.batch_id for f in plan.changelogs] == [2, 3, 4]
        assert not plan.from_first_batch


def test_a_manifest_that_cannot_be_written_ends_the_job(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with driver(tmp_path) as job:
        run(job, 0)
        epoch = job.begin(1)
        job.file(FIRST, 1, attempt=20, epoch=epoch)
        folder = job.root.path(layout.batch_folder(1))
        shutil.move(folder, folder + ".away")
        job.root.storage.write(folder, b"a file where the folder was")
        job.engine.commit(QUERY, 1)
        with caplog.at_level(logging.CRITICAL):
            assert not job.coordinator.settle(QUERY, 1, 2.0)
        error = job.engine.stopped[QUERY]
        assert isinstance(error, CheckpointError)
        assert folder in str(error)


def test_a_run_later_writes_the_manifest_that_could_not_be_written(tmp_path: Path) -> None:
    with driver(tmp_path) as job:
        run(job, 0)
        epoch = job.begin(1)
        job.file(FIRST, 1, attempt=20, epoch=epoch)
        folder = job.root.path(layout.batch_folder(1))
        shutil.move(folder, folder + ".away")
        job.root.storage.write(folder, b"a file where the folder was")
        job.engine.commit(QUERY, 1)
        assert not job.coordinator.settle(QUERY, 1, 2.0)
        job.root.storage.delete(folder)
        shutil.move(folder + ".away", folder)
        _, job.run_id = job.engine.start("job", query_id=QUERY)
        job.begin(2)
        assert tokens(job.root.manifest(1)) == [(0, 63, 1, 20)]


def test_objects_live_in_the_drivers_memory(tmp_path: Path) -> None:
    with driver(tmp_path) as job:
        ask = job.peer().ask
        put = coordinator_pb2.PutObjectRequest(path="driver:/j/x", data=b"1", exclusive=True)
        assert ask("PutObject", put).written
        assert not ask("PutObject", put).written
        got = ask("GetObject", coordinator_pb2.GetObjectRequest(path="driver:/j/x"))
        assert (got.found, got.data) == (True, b"1")
        listed = ask("ListObjects", coordinator_pb2.ListObjectsRequest(prefix="driver:/j/"))
        assert (list(listed.paths), list(listed.sizes)) == (["driver:/j/x"], [1])
        ask("DeleteObject", coordinator_pb2.DeleteObjectRequest(path="driver:/j/x"))
        assert not ask("GetObject", coordinator_pb2.GetObjectRequest(path="driver:/j/x")).found


def test_a_root_in_the_drivers_memory_works_as_any_other(tmp_path: Path) -> None:
    with driver(tmp_path, JobConfig(state_root="driver:/job")) as job:
        job.begin(0)
        assert job.open(FIRST, 0).durable
        job.commit(0)
        listed = job.peer().ask("ListObjects", coordinator_pb2.ListObjectsRequest(prefix="driver:"))
        assert "driver:/job/changelog/0/_manifest-00000001" in listed.paths


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


def test_another_configuration_counts_from_the_next_run(tmp_path: Path) -> None:
    config = JobConfig(state_root=str(tmp_path / "one"))
    with driver(tmp_path, config) as job:
        job.begin(0)
        job.coordinator.configure("", replace(config, retained_checkpoints=5))
        job.engine.plan(QUERY, 0)
        assert job.peer().begin(QUERY, job.run_id, 0).storage.root == str(tmp_path / "one")


def test_records_sealed_by_a_server_that_died_are_told_as_lost_where_nothing_is_durable(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with driver(tmp_path, JobConfig(changelog=False)) as job:
        job.begin(0)
        job.open(FIRST, 0)
        successor = coordinator_pb2.RegisterServerRequest(
            server_id="b", executor_id="executor of a", backend_address="127.0.0.1:1"
        )
        job.peer().ask("RegisterServer", successor)
        assert job.peer("b").assign(FIRST) == "b"
        assert job.peer("b").open(FIRST, 0) == 0, "its own run of the batch may still seal it"
        caplog.set_level(logging.ERROR)
        job.commit(0)
        assert not job.peer("b").heartbeat().owned
        job.begin(1, server="b")
        assert job.peer("b").open(FIRST, 1) == 1
    assert "its records are lost" in caplog.text


def test_nothing_is_lost_where_the_new_owner_sealed_the_batch_too(tmp_path: Path) -> None:
    with driver(tmp_path, JobConfig(changelog=False)) as job:
        job.begin(0)
        job.open(FIRST, 0)
        successor = coordinator_pb2.RegisterServerRequest(
            server_id="b", executor_id="executor of a", backend_address="127.0.0.1:1"
        )
        job.peer().ask("RegisterServer", successor)
        job.peer("b").assign(FIRST)
        job.peer("b").open(FIRST, 0)
        job.peer("b").seal(FIRST, 0)
        job.commit(0)
        assert len(job.peer("b").heartbeat().owned) == 1


def test_a_push_that_ends_unexpectedly_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write, failures = Manifests.write, [RuntimeError("can't start new thread")]

    def fail_once(*args: Any) -> None:
        if failures:
            raise failures.pop()
        write(*args)

    with driver(tmp_path) as job:
        run(job, 0)
        monkeypatch.setattr(Manifests, "write", fail_once)
        epoch = job.begin(1)
        for index in (0, 1):
            job.seal(subtask_of(index), 1, attempt=10 + index, epoch=epoch)
        job.engine.commit(QUERY, 1)
        job.coordinator.batch_committed(QUERY, 1)
        until(lambda: not failures)
        job.begin(2)
        assert tokens(job.root.manifest(1)) == [(0, 63, 1, 10), (64, 127, 1, 11)]
