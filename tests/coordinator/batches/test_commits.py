"""Commits of batches: when a batch commits, and which servers learn of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.coordinator.batches.steps import begin, own

from queryable_state.wire.errors import JobError, Reason, SupersededError, UnknownJobError

if TYPE_CHECKING:
    from tests.coordinator.peer import StartPeer, SubtaskOf

    from queryable_state.server.testing import InMemoryEngine, InProcessCoordinator


def test_the_begin_of_the_next_batch_commits_and_is_answered_after_the_push(
    engine: InMemoryEngine, start_peer: StartPeer, subtask_of: SubtaskOf
) -> None:
    peer = start_peer()
    query_id, run_id = engine.start()
    begin(engine, peer, query_id, run_id, 0, watermark=30)
    own(peer, subtask_of(query_id))
    engine.plan(query_id, 1)
    answer = peer.begin(query_id, run_id, 1)
    assert [commit.version for commit in peer.commits] == [0]
    assert peer.commits[0].watermark_ms == 30
    assert answer.committed.version == 0
    assert answer.committed.commit_time_ms == peer.commits[0].commit_time_ms > 0


def test_the_commit_is_found_by_asking_the_engine(
    engine: InMemoryEngine, start_peer: StartPeer, subtask_of: SubtaskOf
) -> None:
    peer = start_peer()
    query_id, run_id = engine.start()
    begin(engine, peer, query_id, run_id, 0)
    own(peer, subtask_of(query_id))
    engine.commit(query_id, 0)
    peer.wait_for(lambda: [commit.version for commit in peer.commits] == [0])


def test_the_listener_is_believed_of_a_batch_that_has_begun(
    running: InProcessCoordinator,
    engine: InMemoryEngine,
    start_peer: StartPeer,
    subtask_of: SubtaskOf,
) -> None:
    peer = start_peer()
    query_id, run_id = engine.start()
    begin(engine, peer, query_id, run_id, 0)
    own(peer, subtask_of(query_id))
    running.coordinator.batch_committed(query_id, 1)
    running.coordinator.batch_committed(query_id, 0)
    running.coordinator.batch_committed(query_id, 0)
    peer.wait_for(lambda: len(peer.commits) == 1)
    assert peer.commits[0].version == 0
    assert running.coordinator.jobs()[0].committed_batch == 0


def test_a_version_is_stable_once_every_owner_has_confirmed_it(
    engine: InMemoryEngine, start_peer: StartPeer, subtask_of: SubtaskOf
) -> None:
    a, b = start_peer("a"), start_peer("b")
    query_id, run_id = engine.start()
    for batch in range(3):
        for peer in (a, b):
            begin(engine, peer, query_id, run_id, batch)
        if batch == 0:
            own(a, subtask_of(query_id, 0))
            own(b, subtask_of(query_id, 1))
    assert [(commit.version, commit.stable_version) for commit in b.commits] == [(0, -1), (1, 0)]
    (told,) = a.heartbeat().committed
    assert (told.version, told.stable_version) == (1, 1)


def test_a_version_is_stable_without_those_who_are_lost(
    running: InProcessCoordinator,
    engine: InMemoryEngine,
    start_peer: StartPeer,
    subtask_of: SubtaskOf,
) -> None:
    """A heartbeat that brings no news finds it out."""
    a, b = start_peer("a"), start_peer("b")
    query_id, run_id = engine.start()
    begin(engine, a, query_id, run_id, 0)
    own(a, subtask_of(query_id, 0))
    own(b, subtask_of(query_id, 1))
    b.die()
    begin(engine, a, query_id, run_id, 1)
    (told,) = a.heartbeat((query_id, 0)).committed
    assert (told.version, told.stable_version) == (0, -1)
    for _ in range(6):
        running.advance(1_000)
        (told,) = a.heartbeat((query_id, 0)).committed
    assert told.stable_version == 0


def test_a_lost_push_is_repaired_by_the_heartbeat(
    engine: InMemoryEngine, start_peer: StartPeer, subtask_of: SubtaskOf
) -> None:
    a, b = start_peer("a"), start_peer("b")
    query_id, run_id = engine.start()
    begin(engine, a, query_id, run_id, 0)
    own(a, subtask_of(query_id, 0))
    own(b, subtask_of(query_id, 1))
    b.die()
    begin(engine, a, query_id, run_id, 1)
    (told,) = b.heartbeat().committed
    assert (told.version, told.stable_version) == (0, -1)
    (told,) = b.heartbeat((query_id, 0)).committed
    assert told.stable_version == 0


def test_watermarks_go_back_as_far_as_operators_are_deep(
    engine: InMemoryEngine, start_peer: StartPeer
) -> None:
    peer = start_peer()
    query_id, run_id = engine.start()
    for batch in range(3):
        engine.plan(query_id, batch, timestamp_ms=100 + batch, watermark_ms=10 * batch)
    answer = peer.begin(query_id, run_id, 2)
    assert list(answer.watermarks_ms) == [20, 10, 0]
    assert answer.batch_timestamp_ms == 102
    assert answer.offsets_digest


def test_an_older_run_is_fenced_and_epochs_grow(
    engine: InMemoryEngine, start_peer: StartPeer
) -> None:
    peer = start_peer()
    query_id, old_run = engine.start()
    engine.plan(query_id, 0)
    first = peer.begin(query_id, old_run, 0).run_epoch
    _, new_run = engine.start(query_id=query_id)
    with pytest.raises(SupersededError) as refusal:
        peer.begin(query_id, old_run, 0)
    assert refusal.value.reason == Reason.FENCED
    assert peer.begin(query_id, new_run, 0).run_epoch == first + 1
    assert peer.begin(query_id, new_run, 0).run_epoch == first + 1


def test_a_straggler_of_a_committed_batch_is_told_so(
    engine: InMemoryEngine, start_peer: StartPeer
) -> None:
    peer = start_peer()
    query_id, run_id = engine.start()
    for batch in (0, 1):
        begin(engine, peer, query_id, run_id, batch)
    with pytest.raises(SupersededError) as refusal:
        peer.begin(query_id, run_id, 0)
    assert refusal.value.reason == Reason.ALREADY_COMMITTED


def test_a_checkpoint_set_back_is_refused(engine: InMemoryEngine, start_peer: StartPeer) -> None:
    peer = start_peer()
    query_id, run_id = engine.start()
    for batch in range(4):
        begin(engine, peer, query_id, run_id, batch)
    _, run_id = engine.start(query_id=query_id)
    with pytest.raises(JobError, match="was set back"):
        peer.begin(query_id, run_id, 1)
    assert peer.begin(query_id, run_id, 3).committed.version == 2


def test_a_query_nobody_started_and_a_batch_outside_a_stream_are_refused(
    engine: InMemoryEngine, start_peer: StartPeer
) -> None:
    peer = start_peer()
    with pytest.raises(UnknownJobError, match="runs in this driver"):
        peer.begin(b"x" * 16, b"r" * 16, 0)
    query_id, run_id = engine.start()
    with pytest.raises(JobError) as refusal:
        peer.begin(query_id, run_id, -1)
    assert refusal.value.reason == Reason.MISSING_BATCH_ID
