"""Seals reported with a commit: which ones count, and what they reveal."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from tests.coordinator.batches.steps import begin, own

if TYPE_CHECKING:
    import pytest
    from tests.coordinator.peer import StartPeer, SubtaskOf

    from queryable_state.server.testing import InMemoryEngine, InProcessCoordinator


def test_seals_of_a_former_parallelism_are_not_held_against_the_new_one(
    running: InProcessCoordinator,
    engine: InMemoryEngine,
    start_peer: StartPeer,
    subtask_of: SubtaskOf,
) -> None:
    """The commit of a run's last batch may be learned after the next run has begun to ask."""
    peer = start_peer()
    query_id, run_id = engine.start("rescaled")
    begin(engine, peer, query_id, run_id, 0)
    for uid in ("changed", "kept"):
        for index in (0, 1):
            own(peer, subtask_of(query_id, index, uid=uid))
            peer.seal(subtask_of(query_id, index, uid=uid), 0)
    _, next_run = engine.start("rescaled", query_id=query_id)
    assert peer.assign(subtask_of(query_id, 0, uid="changed", parallelism=4)) == "a"
    begin(engine, peer, query_id, next_run, 1)
    running.coordinator.close()
    assert [commit.version for commit in peer.commits] == [0]
    (job,) = running.coordinator.jobs()
    assert job.partial_batches == 0


def test_a_subtask_whose_owner_did_not_answer_is_not_counted_as_missing(
    running: InProcessCoordinator,
    engine: InMemoryEngine,
    start_peer: StartPeer,
    subtask_of: SubtaskOf,
) -> None:
    a, b = start_peer("a"), start_peer("b")
    query_id, run_id = engine.start()
    begin(engine, a, query_id, run_id, 0)
    own(a, subtask_of(query_id, 0))
    own(b, subtask_of(query_id, 1))
    a.seal(subtask_of(query_id, 0), 0)
    b.die()
    begin(engine, a, query_id, run_id, 1)
    assert running.coordinator.jobs()[0].partial_batches == 0


def test_two_fingerprints_of_one_seal_are_counted_and_logged(
    running: InProcessCoordinator,
    engine: InMemoryEngine,
    start_peer: StartPeer,
    subtask_of: SubtaskOf,
    caplog: pytest.LogCaptureFixture,
) -> None:
    peer = start_peer()
    query_id, run_id = engine.start()
    begin(engine, peer, query_id, run_id, 0)
    for index, fingerprints in ((0, (5, 5)), (1, (5, 6))):
        own(peer, subtask_of(query_id, index))
        peer.seal(subtask_of(query_id, index), 0, *fingerprints)
    with caplog.at_level(logging.ERROR):
        begin(engine, peer, query_id, run_id, 1)
        running.coordinator.close()
    (job,) = running.coordinator.jobs()
    assert job.non_deterministic_batches == 1
    assert "NON_DETERMINISTIC_INPUT" in caplog.text
    assert "subtask 1:" in caplog.text
