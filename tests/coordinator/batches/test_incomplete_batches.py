"""Batches that the engine commits and an operator missed."""

from __future__ import annotations

import logging
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.coordinator.drivers import QUERY, driver, subtask_of
from tests.waiting import DEADLINE_S, until

from queryable_state.server.checkpoint import layout
from queryable_state.server.coordinator import JobConfig, OperatorLayout
from queryable_state.wire.errors import CheckpointError, JobError, QueryableStateError, Reason

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.coordinator.drivers import Driver
    from tests.coordinator.peer import Peer, StartPeer

    from queryable_state.server.coordinator.settings import CoordinatorSettings
    from queryable_state.server.testing import InProcessCoordinator

OPERATORS = (OperatorLayout(uid="op", parallelism=2, max_parallelism=128),)


@pytest.fixture
def settings(settings: CoordinatorSettings) -> CoordinatorSettings:
    return replace(settings, strict=True)


class Job:
    """A query without a durable root, whose batches run on one server."""

    def __init__(self, running: InProcessCoordinator, peer: Peer) -> None:
        self.coordinator, self.engine, self.peer = running.coordinator, running.engine, peer
        self.query_id, self.run_id = b"", b""
        self.start(QUERY)

    def start(self, query_id: bytes) -> None:
        self.query_id, self.run_id = self.engine.start("job", query_id=query_id)
        self.coordinator.run_started(query_id, "", OPERATORS)

    def run(self, batch: int, *, subtasks: tuple[int, ...] = (0, 1)) -> None:
        """Begins a batch and seals these subtasks."""
        self.engine.plan(self.query_id, batch)
        self.peer.begin(self.query_id, self.run_id, batch)
        for index in subtasks:
            subtask = subtask_of(index)
            if self.peer.assign(subtask) == self.peer.server_id:
                self.peer.open(subtask, batch)
            self.peer.seal(subtask, batch)

    def commit(self, batch: int) -> None:
        self.engine.commit(self.query_id, batch)
        self.coordinator.batch_committed(self.query_id, batch)

    @property
    def refusal(self) -> QueryableStateError | None:
        return self.engine.stopped.get(self.query_id)

    @property
    def incomplete(self) -> int:
        return self.coordinator.jobs()[0].partial_batches


@pytest.fixture
def job(running: InProcessCoordinator, start_peer: StartPeer) -> Job:
    return Job(running, start_peer())


@pytest.mark.parametrize("subtasks", [(), (0,)], ids=["none", "some"])
def test_a_batch_that_subtasks_missed_is_withdrawn_and_runs_again(
    job: Job, subtasks: tuple[int, ...]
) -> None:
    job.run(0)
    job.commit(0)
    job.run(1, subtasks=subtasks)
    job.commit(1)
    until(lambda: job.engine.newest_commit(QUERY) == 0)
    assert job.refusal is not None
    assert job.refusal.reason == Reason.PARTIAL_BATCH
    assert "batch 1" in job.refusal.message
    assert "spark.queryable_state.strict" in job.refusal.message
    assert [commit.version for commit in job.peer.commits] == [0]
    assert job.incomplete == 1
    job.start(QUERY)
    job.run(1)
    job.commit(1)
    job.peer.wait_for(lambda: [commit.version for commit in job.peer.commits] == [0, 1])


def test_the_next_batch_is_refused_with_the_cause(job: Job) -> None:
    job.run(0)
    job.run(1, subtasks=(0,))
    job.engine.plan(QUERY, 2)
    with pytest.raises(JobError, match="batch 1") as refused:
        job.peer.begin(QUERY, job.run_id, 2)
    assert refused.value.reason == Reason.PARTIAL_BATCH


def test_a_batch_no_task_of_the_query_ever_began_is_withdrawn(job: Job) -> None:
    job.engine.plan(QUERY, 0)
    job.commit(0)
    until(lambda: job.engine.newest_commit(QUERY) == -1)
    assert "the operator did not run" in str(job.refusal)


def test_a_batch_without_input_needs_no_seals(job: Job) -> None:
    job.engine.plan(QUERY, 0, has_input=False)
    job.commit(0)
    job.run(1)
    job.engine.plan(QUERY, 2, has_input=False)
    job.commit(1)
    job.commit(2)
    job.run(3)
    assert job.refusal is None
    assert job.incomplete == 0


def test_a_subtask_whose_owner_does_not_answer_is_not_taken_for_missed(
    job: Job, start_peer: StartPeer
) -> None:
    other = start_peer("b")
    job.engine.plan(QUERY, 0)
    job.peer.begin(QUERY, job.run_id, 0)
    for peer, index in ((job.peer, 0), (other, 1)):
        assert peer.assign(subtask_of(index)) == peer.server_id
        peer.open(subtask_of(index), 0)
    job.peer.seal(subtask_of(0), 0)
    other.die()
    job.engine.plan(QUERY, 1)
    job.peer.begin(QUERY, job.run_id, 1)
    assert job.refusal is None


class TestNotStrict:
    """The job goes on, and an ERROR names what was missed."""

    @pytest.fixture
    def settings(self, settings: CoordinatorSettings) -> CoordinatorSettings:
        return replace(settings, strict=False)

    def test_an_incomplete_batch_is_counted_and_logged(
        self, job: Job, caplog: pytest.LogCaptureFixture
    ) -> None:
        with caplog.at_level(logging.ERROR):
            job.run(0, subtasks=(0,))
            job.run(1)
            job.commit(1)
            job.peer.wait_for(lambda: job.peer.commits[-1].version == 1)
        assert job.incomplete == 1
        assert job.refusal is None
        assert "PARTIAL_BATCH" in caplog.text
        assert "1 of the operator's 2 subtasks did not run (1)" in caplog.text


def write(job: Driver, batch: int, *, subtasks: tuple[int, ...] = (0, 1)) -> None:
    """One durable batch, committed by the engine."""
    epoch = job.begin(batch)
    for index in subtasks:
        job.open(subtask_of(index), batch)
        job.seal(subtask_of(index), batch, attempt=10 * batch + index, epoch=epoch)
    job.engine.commit(QUERY, batch)


def test_the_files_of_a_batch_decide_about_subtasks_nobody_reports(tmp_path: Path) -> None:
    with driver(tmp_path, strict=True) as job:
        epoch = job.begin(0)
        job.open(subtask_of(0), 0)
        for index in (0, 1):
            job.file(subtask_of(index), 0, attempt=index, epoch=epoch)
        job.commit(0)
        assert len(job.root.manifest(0).changelogs) == 2  # type: ignore[union-attr]


def lives_on(tmp_path: Path, batches: int) -> None:
    """A driver commits batches and dies before it learns of the last one."""
    with driver(tmp_path, strict=True) as job:
        for batch in range(batches):
            write(job, batch)
            assert job.coordinator.settle(QUERY, batch, 10.0)


def again(job: Driver, batches: int) -> None:
    """The engine of a new driver knows what the one before had planned and committed."""
    for batch in range(batches):
        job.engine.plan(QUERY, batch)
    job.engine.commit(QUERY, batches - 1)
    job.coordinator.run_started(QUERY, "", OPERATORS)


def test_a_lost_manifest_of_the_newest_batch_is_made_of_its_changelogs(tmp_path: Path) -> None:
    lives_on(tmp_path, 3)
    with driver(tmp_path, strict=True) as job:
        job.root.storage.delete(job.root.path(layout.manifest_file(2, 1)))
        again(job, 3)
        job.begin(3)
        assert len(job.root.manifest(2).changelogs) == 2  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("lost", "missing"),
    [
        (("",), "operator 'op': changelog/2/op)"),
        (("_manifest-00000001", "op/64-127/1-21"), "changelog/2/op (key groups 64-127)"),
    ],
    ids=["folder", "manifest and changelog"],
)
def test_lost_files_of_the_newest_batch_are_named_and_it_runs_again(
    tmp_path: Path, lost: tuple[str, ...], missing: str
) -> None:
    lives_on(tmp_path, 3)
    with driver(tmp_path, strict=True) as job:
        for name in lost:
            path = job.root.path(f"{layout.batch_folder(2)}/{name}".rstrip("/"))
            assert Path(path).exists()
            (job.root.storage.delete if name else job.root.storage.delete_tree)(path)
        again(job, 3)
        with pytest.raises(CheckpointError) as refused:
            job.begin(3)
        assert refused.value.reason == Reason.CHECKPOINT_FAILED
        for text in (
            "batch 2 is committed in Spark's commits/",
            f"{job.root.uri} lacks changelogs of it",
            missing,
            "newest complete batch is 1, which can be restored from the changelogs since batch 0",
            "the next run of the query begins with the batch again",
            "from a backup",
            "savepoint",
            "spark.queryable_state.allow_missing_state=true",
        ):
            assert text in refused.value.message
        assert "foreachBatch" not in refused.value.message
        until(lambda: job.engine.newest_commit(QUERY) == 1)
        _, job.run_id = job.engine.start("job", query_id=QUERY)
        job.coordinator.run_started(QUERY, "", OPERATORS)
        write(job, 2)
        assert job.coordinator.settle(QUERY, 2, 10.0)


def test_lost_files_of_the_newest_batch_are_accepted_where_missing_state_is(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    lives_on(tmp_path, 3)
    with driver(tmp_path, JobConfig(allow_missing_state=True), strict=True) as job:
        job.root.storage.delete_tree(job.root.path(layout.batch_folder(2)))
        again(job, 3)
        job.begin(3)
        assert not job.root.manifest(2).changelogs  # type: ignore[union-attr]
    assert "(batch 2, operator 'op': changelog/2/op): their state is lost" in caplog.text
    assert "withdrawn" not in caplog.text


def test_a_batch_of_this_run_that_no_operator_ran_in_lost_no_files(tmp_path: Path) -> None:
    lives_on(tmp_path, 2)
    with driver(tmp_path, strict=True) as job:
        again(job, 2)
        job.engine.plan(QUERY, 2)
        job.engine.commit(QUERY, 2)
        with pytest.raises(JobError, match="foreachBatch") as refused:
            job.begin(3)
        assert refused.value.reason == Reason.PARTIAL_BATCH
        until(lambda: job.engine.newest_commit(QUERY) == 1)


def test_an_older_batch_without_a_changelog_is_refused(tmp_path: Path) -> None:
    lives_on(tmp_path, 3)
    with driver(tmp_path, strict=True) as job:
        job.root.storage.delete(job.root.path(layout.manifest_file(1, 1)))
        folder = job.root.path(layout.batch_folder(1))
        first = next(iter(job.root.storage.walk(folder)))
        job.root.storage.delete(f"{folder}/{first.path}")
        again(job, 3)
        with pytest.raises(CheckpointError) as refused:
            job.begin(3)
        assert "(batch 1, operator 'op': changelog/1/op (key groups 0-63))" in refused.value.message
        assert "newest complete batch is 0" in refused.value.message


def test_registrations_that_a_manifest_names_must_be_there(tmp_path: Path) -> None:
    with driver(tmp_path, strict=True) as job:
        for batch, name in enumerate(("early", "late")):
            epoch = job.begin(batch)
            for index in (0, 1):
                job.open(subtask_of(index), batch)
                job.peer().register_states(subtask_of(index), *(["early", name][: batch + 1]))
                job.seal(subtask_of(index), batch, attempt=10 * batch + index, epoch=epoch)
            job.commit(batch)
        names = [entry.path for entry in job.root.storage.walk(job.root.path(layout.REGISTRATIONS))]
    with driver(tmp_path, strict=True) as job:
        newest = max(names)
        job.root.storage.delete(f"{job.root.path(layout.REGISTRATIONS)}/{newest}")
        again(job, 2)
        with pytest.raises(CheckpointError, match=newest):
            job.begin(2)


def test_a_refusal_that_the_idle_restorer_reports_first_withdraws_the_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lives_on(tmp_path, 3)
    submit = ThreadPoolExecutor.submit
    reported = threading.Event()

    def begin_late(work: Callable[..., None], *args: Any) -> None:
        assert reported.wait(DEADLINE_S)
        work(*args)

    def submit_late(self: ThreadPoolExecutor, work: Any, *args: Any) -> Any:
        if self._thread_name_prefix == "queryable-state-commit":
            return submit(self, begin_late, work, *args)
        return submit(self, work, *args)

    monkeypatch.setattr(ThreadPoolExecutor, "submit", submit_late)
    with driver(tmp_path, strict=True) as job:
        job.root.storage.delete_tree(job.root.path(layout.batch_folder(2)))
        again(job, 3)
        assert job.coordinator.recover(QUERY, "", OPERATORS)
        assert job.coordinator.await_recovered(QUERY, DEADLINE_S)
        until(lambda: not job.engine.query(QUERY).active)  # type: ignore[union-attr]
        reported.set()
        until(lambda: job.engine.newest_commit(QUERY) == 1)
