"""Durable state is opened when its job starts, and when a server is lost while no batch runs."""

from __future__ import annotations

import shutil
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
from tests.coordinator.drivers import QUERY, driver, subtask_of
from tests.waiting import until

from queryable_state.internal.v1 import coordinator_pb2
from queryable_state.server.coordinator import JobConfig, OperatorLayout
from queryable_state.wire.errors import CheckpointError, RetryLaterError, UnknownStateError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.coordinator.drivers import Driver
    from tests.coordinator.peer import Peer

    from queryable_state.v1 import registration_pb2


def layout(uid: str = "op", *, parallelism: int = 2) -> OperatorLayout:
    return OperatorLayout(uid=uid, parallelism=parallelism, max_parallelism=128)


def run(job: Driver, batch: int, *uids: str) -> None:
    """One whole batch of these operators, each with a state of its name."""
    epoch = job.begin(batch)
    for uid in uids or ("op",):
        for index in range(2):
            subtask = subtask_of(index, uid=uid)
            job.open(subtask, batch)
            job.peer().register_states(subtask, f"state of {uid}")
            job.seal(subtask, batch, attempt=10 * batch + index, epoch=epoch)
    job.commit(batch)


def committed(job: Driver) -> None:
    """The engine of a new driver knows what the query has committed."""
    job.engine.plan(QUERY, 0)
    job.engine.commit(QUERY, 0)


@contextmanager
def second_driver(folder: Path) -> Iterator[Driver]:
    """A driver that finds a query with one batch, run and committed by the one before."""
    with driver(folder) as job:
        run(job, 0)
    with driver(folder) as job:
        committed(job)
        yield job


def recover(job: Driver, *operators: OperatorLayout) -> bool:
    return job.coordinator.recover(QUERY, "", operators or (layout(),))


def opened(peer: Peer) -> list[tuple[str, int, int]]:
    """Operator, subtask and parallelism of what a server was asked to open."""
    return sorted(
        (subtask.operator_uid, subtask.index, subtask.parallelism)
        for request in peer.openings
        for subtask in request.subtasks
    )


def located(job: Driver, state: str = "state of op") -> registration_pb2.StateLocation:
    return job.coordinator.location(QUERY.hex(), state)


def test_a_job_that_goes_on_is_opened_before_its_first_batch(tmp_path: Path) -> None:
    with second_driver(tmp_path) as job:
        peer = job.peer()
        assert recover(job)
        peer.wait_for(lambda: bool(peer.openings))
        (request,) = peer.openings
        assert request.batch_id == 1
        assert request.commit_time_ms > 0
        assert request.storage.root == job.root.uri
        assert opened(peer) == [("op", 0, 2), ("op", 1, 2)]
        assert {owner.server_id for owner in located(job).owners} == {"a"}
        (view,) = job.coordinator.jobs()
        assert (view.status, view.committed_batch, view.states) == (
            "RUNNING",
            0,
            ("state of op",),
        )


def test_the_first_batch_finds_what_is_open_and_the_epoch_of_the_run(tmp_path: Path) -> None:
    with second_driver(tmp_path) as job:
        peer = job.peer()
        recover(job)
        peer.wait_for(lambda: bool(peer.openings))
        before = peer.heartbeat()
        epoch = job.begin(1)
        assert epoch == job.root.newest_epoch() == 2
        assert len(before.owned) == 2
        assert peer.assign(subtask_of(0)) == "a"
        for index in range(2):
            job.seal(subtask_of(index), 1, attempt=index, epoch=epoch)
        job.commit(1)
        manifest = job.root.manifest(1)
        assert manifest is not None
        assert [f.token.run_epoch for f in manifest.changelogs] == [2, 2]
        assert len(peer.openings) == 1


def test_subtasks_are_shared_out_over_the_servers(tmp_path: Path) -> None:
    with second_driver(tmp_path) as job:
        job.engine.set_executors(2)
        peers = [job.peer("a"), job.peer("b")]
        recover(job, layout(parallelism=3))
        for peer in peers:
            peer.wait_for(lambda peer=peer: bool(peer.openings))  # type: ignore[misc]
        assert sorted(map(len, map(opened, peers))) == [1, 2]


def test_state_waits_for_a_first_server_and_who_asks_is_told_to_come_again(
    tmp_path: Path,
) -> None:
    with second_driver(tmp_path) as job:
        recover(job)
        with pytest.raises(RetryLaterError, match="is being restored"):
            located(job, "of no operator")
        assert not job.coordinator.await_recovered(QUERY, 0.05)
        peer = job.peer()
        assert job.coordinator.await_recovered(QUERY, 10.0)
        assert len(opened(peer)) == 2
        with pytest.raises(UnknownStateError):
            located(job, "of no operator")


def test_servers_are_asked_for_where_executors_have_none(tmp_path: Path) -> None:
    with second_driver(tmp_path) as job:
        recover(job)
        until(lambda: job.engine.server_starts == 2)
        job.peer()
        assert job.coordinator.await_recovered(QUERY, 10.0)
        asked = job.engine.server_starts
        job.peer().ask("DeregisterServer", coordinator_pb2.DeregisterServerRequest(server_id="a"))
        until(lambda: job.engine.server_starts > asked)


def test_what_is_noted_as_open_and_came_to_nothing_is_opened_again(tmp_path: Path) -> None:
    with second_driver(tmp_path) as job:
        peer = job.peer()
        peer.lost_openings = 2
        recover(job)
        assert job.coordinator.await_recovered(QUERY, 10.0)
        assert peer.lost_openings == 0
        assert opened(peer) == sorted([("op", 0, 2), ("op", 1, 2)] * 3)


def test_what_was_sealed_of_the_planned_batch_is_opened_with_it(tmp_path: Path) -> None:
    with driver(tmp_path) as job:
        run(job, 0)
        epoch = job.begin(1)
        job.file(subtask_of(0), 1, attempt=20, epoch=epoch)
    with driver(tmp_path) as job:
        committed(job)
        job.engine.plan(QUERY, 1)
        peer = job.peer()
        recover(job)
        peer.wait_for(lambda: bool(peer.openings))
        job.begin(1)
        job.commit(1)
        manifest = job.root.manifest(1)
        assert manifest is not None
        assert [f.token.task_attempt for f in manifest.changelogs] == [20]
        assert not peer.dropped, "it was loaded when the store was opened"


def test_what_is_not_durable_or_has_committed_nothing_is_left_to_its_batches(
    tmp_path: Path,
) -> None:
    with driver(tmp_path) as job:
        assert not recover(job)
    with driver(tmp_path, JobConfig(changelog=False)) as job:
        job.engine.commit(QUERY, 3)
        assert not recover(job)
        assert job.begin(4) == 1


def test_a_job_whose_state_cannot_be_restored_is_stopped_with_the_cause(tmp_path: Path) -> None:
    with driver(tmp_path) as job:
        run(job, 0)
        root = job.root.uri
    shutil.rmtree(root)
    with driver(tmp_path) as job:
        committed(job)
        recover(job)
        until(lambda: QUERY in job.engine.stopped)
        assert root in str(job.engine.stopped[QUERY])
        for ask in (lambda: job.begin(1), lambda: job.coordinator.location("job", "total")):
            with pytest.raises(CheckpointError, match=root):
                ask()


def test_an_operator_the_run_has_no_more_is_forgotten(tmp_path: Path) -> None:
    """Also in the driver that has run it: nobody waits for its subtasks."""
    config = JobConfig(allow_non_restored_state=True)
    with driver(tmp_path, config) as job:
        run(job, 0, "op", "old")
        assert job.coordinator.location(QUERY.hex(), "state of old").owners[0].server_id == "a"
        _, job.run_id = job.engine.start("job", query_id=QUERY, checkpoint_location=job.location)
        recover(job)
        peer = job.peer()
        until(lambda: len(peer.heartbeat().owned) == 2)
        assert [s.operator_uid for s in peer.heartbeat().owned] == ["op", "op"]
        assert [s.queryable_name for s in job.coordinator.states()] == ["state of op"]
        peer.wait_for(lambda: bool(peer.openings))
        assert opened(peer) == [("op", 0, 2), ("op", 1, 2)], "asked once whether it is open"


def test_what_a_lost_server_had_is_opened_on_another_while_no_batch_runs(
    tmp_path: Path,
) -> None:
    with driver(tmp_path) as job:
        run(job, 0)
        recover(job)
        job.peer("b")
        leaving = coordinator_pb2.DeregisterServerRequest(server_id="a")
        job.peer("a").ask("DeregisterServer", leaving)
        peer = job.peer("b")
        peer.wait_for(lambda: len(opened(peer)) == 2)
        assert {owner.server_id for owner in located(job).owners} == {"b"}
