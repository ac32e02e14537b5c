"""Subtasks that change their owner between batches, and owners that keep them."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import pytest
from tests.coordinator.batches.steps import begin, own

from queryable_state.wire.errors import PlacementError, Reason

if TYPE_CHECKING:
    from tests.coordinator.peer import StartPeer, SubtaskOf

    from queryable_state.server.testing import FakeClock, InMemoryEngine, InProcessCoordinator


def test_a_new_parallelism_waits_until_former_owners_have_dropped_theirs(
    engine: InMemoryEngine, start_peer: StartPeer, subtask_of: SubtaskOf
) -> None:
    """Or they would go on answering from state that nobody writes any more."""
    a, b = start_peer("a"), start_peer("b")
    query_id, run_id = engine.start("rescaled")
    begin(engine, a, query_id, run_id, 0)
    own(a, subtask_of(query_id, 0))
    own(b, subtask_of(query_id, 1))
    engine.start("rescaled", query_id=query_id)
    rescaled = subtask_of(query_id, 0, parallelism=4)
    assert b.assign(rescaled) == "b"
    # The first lease tells it, the second heartbeat says that it was told.
    for _ in range(2):
        with pytest.raises(PlacementError) as refusal:
            b.open(rescaled, 1)
        assert refusal.value.reason == Reason.NO_OWNER
        assert refusal.value.retry_after_ms > 0
        assert not a.heartbeat().owned
    assert b.open(rescaled, 1) == 1


def test_a_parallelism_that_comes_back_waits_until_its_former_subtasks_are_dropped(
    engine: InMemoryEngine, start_peer: StartPeer, subtask_of: SubtaskOf
) -> None:
    """They have the same ids: their server would go on answering from them."""
    a, b = start_peer("a"), start_peer("b")
    query_id, run_id = engine.start("rescaled twice")
    begin(engine, a, query_id, run_id, 0)
    own(a, subtask_of(query_id, 0))
    engine.start("rescaled twice", query_id=query_id)
    assert b.assign(subtask_of(query_id, 0, parallelism=4)) == "b"
    engine.start("rescaled twice", query_id=query_id)
    for _ in range(2):
        with pytest.raises(PlacementError) as refusal:
            a.assign(subtask_of(query_id, 1))
        assert refusal.value.reason == Reason.NO_OWNER
        assert refusal.value.retry_after_ms > 0
        assert not a.heartbeat().owned
    assert a.assign(subtask_of(query_id, 1)) == "a"
    assert b.assign(subtask_of(query_id, 0)) == "b"


def test_a_lost_server_costs_its_range_and_the_log_says_so_once(
    running: InProcessCoordinator,
    engine: InMemoryEngine,
    clock: FakeClock,
    start_peer: StartPeer,
    subtask_of: SubtaskOf,
    caplog: pytest.LogCaptureFixture,
) -> None:
    a, b = start_peer("a"), start_peer("b")
    query_id, run_id = engine.start("job")
    begin(engine, a, query_id, run_id, 0)
    own(a, subtask_of(query_id, 0))
    own(b, subtask_of(query_id, 1))
    begin(engine, b, query_id, run_id, 1)
    a.die()
    for _ in range(6):
        running.advance(1_000)
        b.heartbeat((query_id, 0))
    assert b.assign(subtask_of(query_id, 0), not_server="a") == "b"
    with caplog.at_level(logging.ERROR):
        assert [b.open(subtask_of(query_id, 0), 1) for _ in range(2)] == [1, 1]
    lost = [record.getMessage() for record in caplog.records if "STATE_LOST" in record.getMessage()]
    assert len(lost) == 1
    assert "subtask 0 (key groups 0 to 63)" in lost[0]
    assert clock.now_ms > 0


def test_servers_keep_their_leases_while_the_driver_stands_still(
    running: InProcessCoordinator,
    engine: InMemoryEngine,
    clock: FakeClock,
    start_peer: StartPeer,
    subtask_of: SubtaskOf,
) -> None:
    a, b = start_peer("a"), start_peer("b")
    query_id, _ = engine.start()
    own(a, subtask_of(query_id))
    clock.now_ms += 60_000
    running.coordinator.tick()
    assert b.assign(subtask_of(query_id)) == "a"
