"""A driver whose job another driver takes over: it stops, and takes nothing along."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.coordinator.drivers import QUERY, driver, subtask_of
from tests.waiting import until

from queryable_state.server.checkpoint.state_root import StateRoot
from queryable_state.server.coordinator import JobConfig, OperatorLayout
from queryable_state.server.testing import FakeClock, InMemoryEngine
from queryable_state.wire.errors import Reason, RetryLaterError, SupersededError

if TYPE_CHECKING:
    from tests.coordinator.drivers import Driver
    from tests.coordinator.peer import Peer

    from queryable_state.wire.errors import QueryableStateError

LONG_LEASE_MS = 600_000
SHORT_LEASE_MS = 1_500


def run(job: Driver, batch: int) -> int:
    """One whole batch of one operator; answers the run's epoch."""
    job.peer().heartbeat()
    epoch = job.begin(batch)
    for index in range(2):
        job.open(subtask_of(index), batch)
        job.peer().register_states(subtask_of(index), "last")
        job.seal(subtask_of(index), batch, attempt=10 * batch + index, epoch=epoch)
    job.commit(batch)
    return epoch


def files(job: Driver) -> set[Path]:
    root = Path(job.root.uri.removeprefix("file:"))
    return {file for file in root.rglob("*") if file.is_file()}


def renews(peer: Peer) -> bool:
    try:
        peer.heartbeat()
    except RetryLaterError:
        return False
    return True


def taken_over(job: Driver) -> None:
    """Another driver begins a batch of the job."""
    job.root.allocate_epoch(b"another driver")


def assert_fenced(job: Driver) -> None:
    """Neither lookups nor tasks get anything, whoever asks."""
    assert job.engine.stopped[QUERY].reason == Reason.FENCED
    with pytest.raises(SupersededError, match="another driver has taken over") as refusal:
        job.coordinator.location(QUERY.hex(), "last")
    assert refusal.value.reason == Reason.FENCED
    peer = job.peer()
    assert list(peer.heartbeat().owned) == []
    for ask in (
        lambda: peer.assign(subtask_of(0)),
        lambda: job.begin(7),
        lambda: peer.open(subtask_of(0), 7, restored=True),
    ):
        with pytest.raises(SupersededError):
            ask()


def test_an_idle_driver_is_fenced_at_its_next_heartbeat(tmp_path: Path) -> None:
    with driver(tmp_path, lease_ms=SHORT_LEASE_MS) as job:
        run(job, 0)
        before = files(job)
        taken_over(job)
        job.peer().wait_for(lambda: QUERY in job.peer().dropped)
        assert_fenced(job)
        assert before < files(job)


def test_an_open_run_that_is_fenced_while_idle_is_not_opened_again(tmp_path: Path) -> None:
    with driver(tmp_path, lease_ms=SHORT_LEASE_MS) as job:
        run(job, 0)
        layout = OperatorLayout(uid="op", parallelism=2, max_parallelism=128)
        job.coordinator.recover(QUERY, "", [layout])
        assert job.coordinator.await_recovered(QUERY, 10.0)
        opened = len(job.peer().openings)
        taken_over(job)
        until(lambda: QUERY in job.engine.stopped)
        assert_fenced(job)
        assert len(job.peer().openings) == opened


def test_a_batch_after_the_take_over_does_not_begin(tmp_path: Path) -> None:
    """Checkpoints are off, as everywhere here, and no heartbeat is due."""
    with driver(tmp_path, JobConfig(checkpoint_interval_ms=0), lease_ms=LONG_LEASE_MS) as job:
        run(job, 0)
        taken_over(job)
        with pytest.raises(SupersededError):
            job.begin(1)
        assert_fenced(job)


def test_a_batch_begun_before_the_take_over_gets_no_manifest(tmp_path: Path) -> None:
    with driver(tmp_path, lease_ms=LONG_LEASE_MS) as job:
        run(job, 0)
        epoch = job.begin(1)
        for index in range(2):
            job.seal(subtask_of(index), 1, attempt=10 + index, epoch=epoch)
        taken_over(job)
        job.engine.commit(QUERY, 1)
        job.coordinator.batch_committed(QUERY, 1)
        until(lambda: QUERY in job.engine.stopped)
        assert_fenced(job)
        assert job.root.manifest(1) is None


def test_a_commit_of_the_other_driver_is_not_withdrawn_for_a_batch_that_is_incomplete_here(
    tmp_path: Path,
) -> None:
    with driver(tmp_path, strict=True, lease_ms=LONG_LEASE_MS) as job:
        run(job, 0)
        epoch = job.begin(1)
        job.seal(subtask_of(0), 1, attempt=10, epoch=epoch)
        taken_over(job)
        job.engine.commit(QUERY, 1)
        job.coordinator.batch_committed(QUERY, 1)
        until(lambda: QUERY in job.engine.stopped)
        assert_fenced(job)
        assert job.engine.newest_commit(QUERY) == 1


def test_a_job_that_is_taken_over_is_cancelled_at_once_and_removes_nothing(tmp_path: Path) -> None:
    config = JobConfig(delete_on_cancellation=True)
    with driver(tmp_path, config, lease_ms=LONG_LEASE_MS) as job:
        run(job, 0)
        job.begin(1)
        taken_over(job)
        before = files(job)
        job.engine.commit(QUERY, 1)
        job.coordinator.batch_committed(QUERY, 1)
        until(lambda: QUERY in job.engine.stopped)
        for ask in (
            lambda: job.coordinator.settle(QUERY, 1, LONG_LEASE_MS / 1000),
            lambda: job.coordinator.job_cancelled(QUERY),
        ):
            with pytest.raises(SupersededError):
                ask()
        assert files(job) == before


def test_a_job_that_has_ended_is_answered_by_nobody_once_another_driver_goes_on(
    tmp_path: Path,
) -> None:
    with driver(tmp_path, lease_ms=SHORT_LEASE_MS) as job:
        run(job, 0)
        job.engine.end(QUERY)
        job.coordinator.refresh()
        assert job.coordinator.location(QUERY.hex(), "last").owners
        taken_over(job)
        job.peer().wait_for(lambda: QUERY in job.peer().dropped)
        with pytest.raises(SupersededError):
            job.coordinator.location(QUERY.hex(), "last")
        assert job.engine.stopped == {}


def test_the_job_can_be_taken_back_by_a_new_run(tmp_path: Path) -> None:
    with driver(tmp_path, lease_ms=SHORT_LEASE_MS) as job:
        run(job, 0)
        taken_over(job)
        until(lambda: QUERY in job.engine.stopped)
        _, job.run_id = job.engine.start("job", query_id=QUERY, checkpoint_location=job.location)
        assert run(job, 1) == 3
        assert job.coordinator.location(QUERY.hex(), "last").owners
        manifest = job.root.manifest(1)
        assert manifest is not None
        assert manifest.run_epoch == 3


def test_no_lease_is_renewed_after_a_pause_before_the_roots_are_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Servers that missed the take-over as their driver did must not answer on."""
    clock = FakeClock()
    with driver(tmp_path, lease_ms=LONG_LEASE_MS, clock=clock) as job:
        run(job, 0)
        peer = job.peer()
        assert len(peer.heartbeat().owned) == 2
        has_newer_epoch = StateRoot.has_newer_epoch
        refusals = []

        def asked_meanwhile(root: StateRoot, epoch: int) -> bool:
            with pytest.raises(RetryLaterError) as refusal:
                peer.heartbeat()
            refusals.append(refusal.value)
            return has_newer_epoch(root, epoch)

        taken_over(job)
        monkeypatch.setattr(StateRoot, "has_newer_epoch", asked_meanwhile)
        clock.now_ms += 3_000
        job.coordinator.tick()
        until(lambda: QUERY in job.engine.stopped)
        assert refusals
        monkeypatch.undo()
        until(lambda: renews(peer))
        assert_fenced(job)


def test_a_root_that_cannot_be_read_now_fences_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with driver(tmp_path, lease_ms=SHORT_LEASE_MS) as job:
        run(job, 0)
        looks = []

        def fails(root: StateRoot, epoch: int) -> bool:
            looks.append(root)
            raise RetryLaterError("the store is away")

        monkeypatch.setattr(StateRoot, "has_newer_epoch", fails)
        until(lambda: len(looks) > 2)
        monkeypatch.undo()
        run_again = run(job, 1)
        assert run_again == 1
        assert job.engine.stopped == {}


def test_a_run_is_fenced_though_its_engine_does_not_answer_at_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with driver(tmp_path, lease_ms=SHORT_LEASE_MS) as job:
        run(job, 0)
        failures = []

        def fails(query_id: bytes, error: QueryableStateError) -> None:
            failures.append(error)
            if len(failures) < 3:
                raise RetryLaterError("Spark does not answer")
            InMemoryEngine.stop_query(job.engine, query_id, error)

        monkeypatch.setattr(job.engine, "stop_query", fails)
        taken_over(job)
        job.peer().wait_for(lambda: QUERY in job.peer().dropped)
        until(lambda: QUERY in job.engine.stopped)
        assert_fenced(job)
        assert len(failures) == 3
