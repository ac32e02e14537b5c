"""The coordinator's answers to marker sources."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest
from tests.waiting import DEADLINE_S

from queryable_state.internal.v1 import coordinator_pb2

if TYPE_CHECKING:
    from tests.coordinator.peer import Peer, StartPeer

    from queryable_state.server.testing import InMemoryEngine

CLOCK = "c" * 32
UNKNOWN, NONE, BATCH, END = (
    coordinator_pb2.BATCH_DEMAND_UNKNOWN,
    coordinator_pb2.BATCH_DEMAND_NONE,
    coordinator_pb2.BATCH_DEMAND_BATCH,
    coordinator_pb2.BATCH_DEMAND_END_OF_TIME,
)


@pytest.fixture
def peer(start_peer: StartPeer) -> Peer:
    return start_peer()


def wanted(peer: Peer, clock: str = CLOCK, *, ends: bool = False) -> int:
    request = coordinator_pb2.WantsBatchRequest(clock_id=clock, ends=ends)
    return int(peer.ask("WantsBatch", request).demand)


def known(peer: Peer, *, ends: bool = False) -> int:
    """The answer once it is known."""
    deadline_s = time.monotonic() + DEADLINE_S
    while (demand := wanted(peer, ends=ends)) == UNKNOWN:
        assert time.monotonic() < deadline_s
        time.sleep(0.01)
    return demand


def test_an_id_is_unknown_until_a_batch_has_begun_with_it(
    engine: InMemoryEngine, peer: Peer
) -> None:
    query_id, run_id = engine.start()
    engine.plan(query_id, 0, clock_id=CLOCK)
    assert wanted(peer) == UNKNOWN
    peer.begin(query_id, run_id, 0)
    assert wanted(peer) == UNKNOWN
    engine.commit(query_id, 0)
    assert known(peer) == NONE
    assert wanted(peer, "another") == UNKNOWN


def test_a_query_that_ends_gets_batches_until_the_end_of_time(
    engine: InMemoryEngine, peer: Peer
) -> None:
    query_id, run_id = engine.start()
    found = []
    for batch, has_input, watermark in ((0, True, 0), (1, False, 9), (2, False, 2**63 - 1)):
        engine.plan(query_id, batch, clock_id=CLOCK, has_input=has_input, watermark_ms=watermark)
        peer.begin(query_id, run_id, batch)
        engine.commit(query_id, batch)
        found.append(known(peer, ends=True))
    assert found == [BATCH, END, NONE]
