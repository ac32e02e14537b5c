"""The next timers of a query, as the seals of its committed batches report them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.coordinator.batches.steps import begin, own

from queryable_state.internal.v1.backend_pb2 import NextTimers, Subtask

if TYPE_CHECKING:
    from tests.coordinator.peer import Peer, StartPeer, SubtaskOf

    from queryable_state.server.testing import InMemoryEngine, InProcessCoordinator

SETTLE_S = 10.0
DUE = (0, None)
"""A processing-time timer that is due at any time."""


class TimerJob:
    """A query of operators with two subtasks each, all on one server."""

    def __init__(
        self, running: InProcessCoordinator, peer: Peer, subtask_of: SubtaskOf, *uids: str
    ) -> None:
        self.running = running
        self.peer = peer
        self.uids = uids
        self.subtask_of = subtask_of
        self.query_id, self.run_id = running.engine.start()

    def next_timers(self) -> tuple[int | None, int | None]:
        return self.running.coordinator.next_timers(self.query_id)

    def subtask(self, index: int, uid: str = "op") -> Subtask:
        return self.subtask_of(self.query_id, index, uid=uid)

    def begin(self, batch_id: int, clock_id: str = "", *, has_input: bool = True) -> None:
        self.running.engine.plan(self.query_id, batch_id, clock_id=clock_id, has_input=has_input)
        self.peer.begin(self.query_id, self.run_id, batch_id)
        for uid in self.uids:
            for index in (0, 1):
                if batch_id == 0:
                    own(self.peer, self.subtask(index, uid))
            self.peer.register_timers(self.subtask(0, uid))

    def commit(self, batch_id: int) -> None:
        coordinator = self.running.coordinator
        self.running.engine.commit(self.query_id, batch_id)
        coordinator.settle(self.query_id, batch_id, SETTLE_S)

    def run(self, batch_id: int, *timers: NextTimers) -> None:
        """A batch of one operator whose subtasks report these timers."""
        self.begin(batch_id)
        for index, reported in enumerate(timers):
            self.peer.seal(self.subtask(index), batch_id, timers=reported)
        self.commit(batch_id)


@pytest.fixture
def job(running: InProcessCoordinator, start_peer: StartPeer, subtask_of: SubtaskOf) -> TimerJob:
    return TimerJob(running, start_peer(), subtask_of, "op")


def test_a_query_has_the_earliest_timers_of_all_its_subtasks(job: TimerJob) -> None:
    job.run(0, NextTimers(processing_time_ms=7, event_time_ms=-2), NextTimers(event_time_ms=-3))
    assert job.next_timers() == (7, -3)
    job.run(1, NextTimers(), NextTimers(processing_time_ms=9))
    assert job.next_timers() == (9, None)
    job.run(2, NextTimers(), NextTimers())
    assert job.next_timers() == (None, None)


def test_the_timers_of_all_operators_count(
    running: InProcessCoordinator, start_peer: StartPeer, subtask_of: SubtaskOf
) -> None:
    job = TimerJob(running, start_peer(), subtask_of, "a", "b")
    job.begin(0)
    for uid, timers in (("a", NextTimers(event_time_ms=5)), ("b", NextTimers(event_time_ms=4))):
        for index in (0, 1):
            job.peer.seal(job.subtask(index, uid), 0, timers=timers)
    job.commit(0)
    assert job.next_timers() == (None, 4)


def test_a_subtask_that_did_not_run_keeps_its_timers(job: TimerJob) -> None:
    job.run(0, NextTimers(processing_time_ms=7), NextTimers(processing_time_ms=8))
    job.begin(1)
    job.peer.seal(job.subtask(0), 1, timers=NextTimers(processing_time_ms=20))
    job.commit(1)
    assert job.next_timers() == (8, None)


def test_a_seal_that_is_not_committed_changes_nothing(job: TimerJob) -> None:
    job.run(0, NextTimers(processing_time_ms=7), NextTimers())
    job.begin(1)
    for index in (0, 1):
        job.peer.seal(job.subtask(index), 1, timers=NextTimers(processing_time_ms=20))
    assert job.next_timers() == (7, None)


def test_a_new_run_wants_a_batch_that_tells_its_timers(job: TimerJob) -> None:
    job.run(0, NextTimers(processing_time_ms=7), NextTimers())
    _, job.run_id = job.running.engine.start(query_id=job.query_id)
    job.begin(1)
    assert job.next_timers() == DUE
    for index in (0, 1):
        job.peer.seal(job.subtask(index), 1, timers=NextTimers(processing_time_ms=7))
    job.commit(1)
    assert job.next_timers() == (7, None)


def test_a_lost_report_wants_a_batch_that_repeats_it(
    running: InProcessCoordinator, start_peer: StartPeer, subtask_of: SubtaskOf
) -> None:
    a, b = start_peer("a"), start_peer("b")
    job = TimerJob(running, a, subtask_of)
    begin(running.engine, a, job.query_id, job.run_id, 0)
    for index, peer in enumerate((a, b)):
        own(peer, job.subtask(index))
        peer.register_timers(job.subtask(index))
        peer.seal(job.subtask(index), 0, timers=NextTimers(event_time_ms=5))
    job.commit(0)
    assert job.next_timers() == (None, 5)
    job.begin(1)
    a.seal(job.subtask(0), 1, timers=NextTimers(event_time_ms=6))
    b.die()
    job.commit(1)
    assert job.next_timers() == (0, 6)


def test_a_query_without_timers_and_an_unknown_one_have_none(
    running: InProcessCoordinator,
    engine: InMemoryEngine,
    start_peer: StartPeer,
    subtask_of: SubtaskOf,
) -> None:
    peer = start_peer()
    query_id, run_id = engine.start()
    assert running.coordinator.next_timers(query_id) == (None, None)
    begin(engine, peer, query_id, run_id, 0)
    own(peer, subtask_of(query_id))
    peer.register_states(subtask_of(query_id), "last")
    assert running.coordinator.next_timers(query_id) == (None, None)


def test_a_dropped_query_has_none(job: TimerJob) -> None:
    job.run(0, NextTimers(processing_time_ms=7), NextTimers())
    job.running.engine.end(job.query_id)
    job.running.coordinator.refresh()
    job.running.coordinator.drop_query(job.query_id)
    assert job.next_timers() == (None, None)


def test_a_query_owes_a_batch_until_its_event_time_timers_have_seen_the_newest_watermark(
    job: TimerJob,
) -> None:
    coordinator, timers = job.running.coordinator, NextTimers(event_time_ms=5)
    assert not coordinator.owes_batch(job.query_id)
    job.begin(0, "c" * 32)
    for index in (0, 1):
        job.peer.seal(job.subtask(index), 0, timers=timers)
    # Not known: the batch may still make a timer due.
    assert coordinator.owes_batch(job.query_id)
    job.commit(0)
    assert coordinator.owes_batch(job.query_id)
    job.begin(1, "c" * 32, has_input=False)
    for index in (0, 1):
        job.peer.seal(job.subtask(index), 1, timers=timers)
    job.commit(1)
    assert not coordinator.owes_batch(job.query_id)


def test_a_query_owes_no_batch_for_timers_of_processing_time(job: TimerJob) -> None:
    job.begin(0, "c" * 32)
    for index in (0, 1):
        job.peer.seal(job.subtask(index), 0, timers=NextTimers(processing_time_ms=1))
    job.commit(0)
    assert not job.running.coordinator.owes_batch(job.query_id)


def test_a_query_without_a_marker_source_owes_no_batch(job: TimerJob) -> None:
    job.run(0, NextTimers(event_time_ms=5), NextTimers(event_time_ms=5))
    assert not job.running.coordinator.owes_batch(job.query_id)
