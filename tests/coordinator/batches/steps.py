"""Steps of a batch, as a state server takes them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.coordinator.peer import Peer

    from queryable_state.internal.v1 import backend_pb2
    from queryable_state.server.testing import InMemoryEngine


def begin(
    engine: InMemoryEngine,
    peer: Peer,
    query_id: bytes,
    run_id: bytes,
    batch: int,
    watermark: int = 0,
) -> None:
    engine.plan(query_id, batch, watermark_ms=watermark)
    peer.begin(query_id, run_id, batch)


def own(peer: Peer, subtask: backend_pb2.Subtask, batch: int = 0) -> int:
    assert peer.assign(subtask) == peer.server_id
    return peer.open(subtask, batch)
