"""A coordinator on real sockets, and the peers that join it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.coordinator.peer import Peer, StartPeer, SubtaskOf

from queryable_state.internal.v1 import backend_pb2
from queryable_state.server.coordinator.settings import CoordinatorSettings
from queryable_state.server.testing import (
    FakeClock,
    InMemoryEngine,
    InProcessCoordinator,
    in_process_coordinator,
)

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def settings() -> CoordinatorSettings:
    return CoordinatorSettings(
        ports="0", lease_ms=5_000, lease_margin_ms=500, stop_timeout_s=0.1, strict=False
    )


@pytest.fixture
def running(clock: FakeClock, settings: CoordinatorSettings) -> Iterator[InProcessCoordinator]:
    with in_process_coordinator(settings=settings, clock=clock) as started:
        yield started


@pytest.fixture
def engine(running: InProcessCoordinator) -> InMemoryEngine:
    return running.engine


@pytest.fixture
def start_peer(running: InProcessCoordinator) -> Iterator[StartPeer]:
    peers: list[Peer] = []

    def start(server_id: str = "a", executor: str = "") -> Peer:
        peer = Peer(running, server_id, executor or f"executor of {server_id}")
        peers.append(peer)
        peer.register()
        return peer

    yield start
    for peer in peers:
        peer.close()


@pytest.fixture
def subtask_of() -> SubtaskOf:
    def subtask(
        query_id: bytes, index: int = 0, *, uid: str = "op", parallelism: int = 2
    ) -> backend_pb2.Subtask:
        return backend_pb2.Subtask(
            query_id=query_id,
            operator_uid=uid,
            index=index,
            parallelism=parallelism,
            max_parallelism=128,
        )

    return subtask
