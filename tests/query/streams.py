"""A query stream spoken by hand."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Self

from queryable_state.server.query.router import QuerySession, Router
from queryable_state.v1 import query_pb2, query_pb2_grpc
from queryable_state.wire.keys.key_groups import KeyGroups
from queryable_state.wire.schema.types import Types
from queryable_state.wire.values.value_codec import ValueCodec

if TYPE_CHECKING:
    import grpc.aio

    from queryable_state.server.query.router import Deliver
    from queryable_state.server.testing.cluster import InProcessCluster

DEADLINE_S = 20.0
KEYS = KeyGroups(Types.STRING(), 128)
VALUES = ValueCodec.of(Types.DOUBLE())


def wire_keys(*keys: str) -> list[bytes]:
    return [KEYS.wire_key(key) for key in keys]


class RawStream:
    """One `StreamKvState` call, frame by frame."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        stub: Any = query_pb2_grpc.QueryableStateStub(channel)
        self.call = stub.StreamKvState(timeout=DEADLINE_S)

    async def greet(self, version: int = 1) -> query_pb2.ServerHello:
        hello = query_pb2.ClientHello(protocol_version=version, client="test")
        await self.call.write(query_pb2.StreamKvStateRequest(hello=hello))
        response = await self.call.read()
        assert response.WhichOneof("frame") == "hello"
        return response.hello  # type: ignore[no-any-return]

    async def send(self, **fields: Any) -> None:
        query = query_pb2.Query(**({"id": 1, "deadline_ms": 10_000} | fields))
        await self.call.write(query_pb2.StreamKvStateRequest(query=query))

    async def answer(self) -> query_pb2.Answer:
        response = await self.call.read()
        assert response.WhichOneof("frame") == "answer"
        return response.answer  # type: ignore[no-any-return]

    async def ask(self, **fields: Any) -> list[query_pb2.Answer]:
        """All parts of the answer to one query."""
        await self.send(**fields)
        parts = [await self.answer()]
        while not parts[-1].last:
            parts.append(await self.answer())
        return parts

    async def __aenter__(self) -> Self:
        await self.greet()
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        self.call.cancel()


def values_by_position(parts: list[query_pb2.Answer], count: int) -> dict[int, float]:
    """The values of an answer by key position; checks that parts are what they should be."""
    assert [part.part for part in parts] == list(range(len(parts)))
    found: dict[int, float] = {}
    seen: list[int] = []
    for part in parts:
        indexes = list(part.indexes)
        if not indexes and part.values:
            out = {*part.missing, *(at for failed in part.failed for at in failed.indexes)}
            indexes = [at for at in range(count) if at not in out]
        found.update(zip(indexes, map(VALUES.decode, part.values), strict=True))
        seen += [*indexes, *part.missing, *(at for failed in part.failed for at in failed.indexes)]
    assert sorted(seen) == list(range(count))
    return found


async def state_id_of(cluster: InProcessCluster, name: str = "last") -> int:
    location = await asyncio.to_thread(cluster.coordinator.coordinator.location, "sensors", name)
    return location.registration.state_id


def keys_of_server(cluster: InProcessCluster, server_number: int, name: str = "last") -> list[str]:
    """Keys that one of the servers owns."""
    location = cluster.coordinator.coordinator.location("sensors", name)
    server_id = cluster.servers[server_number].server_id
    owned = [
        range(owner.first_key_group, owner.last_key_group + 1)
        for owner in location.owners
        if owner.server_id == server_id
    ]
    return [
        key
        for key in (f"sensor_{number}" for number in range(100))
        if any(KEYS.of(key) in groups for groups in owned)
    ]


class OneSession(Router, QuerySession):
    """A router of one session, for streams: they ask for nothing else."""

    deliver: Deliver

    def session(self, deliver: Deliver) -> QuerySession:
        self.deliver = deliver
        return self

    answers = scan = measure = explain = known = None  # type: ignore[assignment]
    locate = list_jobs = list_states = None  # type: ignore[assignment]

    async def aclose(self) -> None:
        """Holds nothing."""
