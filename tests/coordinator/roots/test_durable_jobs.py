"""A job whose state is durable: what its root says after each batch, and to the next driver."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from tests.coordinator.drivers import QUERY, driver, subtask_of
from tests.waiting import until

from queryable_state.internal.v1 import checkpoint_pb2, coordinator_pb2
from queryable_state.server.checkpoint import layout
from queryable_state.server.coordinator import JobConfig
from queryable_state.server.coordinator.batches.manifests import Manifests
from queryable_state.wire.errors import (
    JobError,
    PlacementError,
    RetryLaterError,
    SupersededError,
)

if TYPE_CHECKING:
    from pathlib import Path


from tests.coordinator.roots.durable import FIRST, SECOND, run, tokens


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
