"""Calls that wait never keep a server from renewing its lease."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest
from tests.coordinator.peer import Peer
from tests.waiting import DEADLINE_S

from queryable_state.server.coordinator.settings import CoordinatorSettings
from queryable_state.server.testing import InMemoryEngine, in_process_coordinator
from queryable_state.wire.errors import RetryLaterError

if TYPE_CHECKING:
    from queryable_state.server.coordinator import BatchClocks


class SlowEngine(InMemoryEngine):
    """Whose offsets are read only once they may be."""

    def __init__(self) -> None:
        super().__init__()
        self.may_answer = threading.Event()
        self.waiting = threading.Semaphore(0)

    def clocks(self, query_id: bytes, batch_id: int) -> BatchClocks:
        self.waiting.release()
        assert self.may_answer.wait(DEADLINE_S)
        return super().clocks(query_id, batch_id)


def test_a_lease_is_renewed_however_many_begins_wait() -> None:
    engine = SlowEngine()
    settings = CoordinatorSettings(ports="0", workers=4, stop_timeout_s=0.1)
    with in_process_coordinator(engine=engine, settings=settings) as running:
        peer = Peer(running, "a", "executor")
        try:
            peer.register()
            query_id, run_id = engine.start()
            engine.plan(query_id, 0)
            with ThreadPoolExecutor(3) as tasks:
                begins = [tasks.submit(peer.begin, query_id, run_id, 0) for _ in range(3)]
                for _ in begins:
                    assert engine.waiting.acquire(timeout=DEADLINE_S)
                assert peer.heartbeat().duration_ms
                with pytest.raises(RetryLaterError, match="as many calls waiting"):
                    peer.begin(query_id, run_id, 0)
                engine.may_answer.set()
                assert {begin.result(DEADLINE_S).run_epoch for begin in begins} == {1}
        finally:
            peer.close()
