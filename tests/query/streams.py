"""The frame protocol spoken by hand."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any, Self

import grpc.aio
from tests.waiting import DEADLINE_S

from queryable_state.server.config.limits import Limits
from queryable_state.server.query.frames.frame_server import FrameServer
from queryable_state.server.query.frames.open_streams import OpenStreams
from queryable_state.server.query.router import QuerySession, Router, ServiceInfo
from queryable_state.v1 import query_pb2, query_pb2_grpc
from queryable_state.wire.errors import QueryableStateError
from queryable_state.wire.frames.framed_stream import PREAMBLE, FrameReader, framed
from queryable_state.wire.frames.stream_hello import client_hello, frame_endpoint
from queryable_state.wire.keys.key_groups import KeyGroups
from queryable_state.wire.schema.types import Types
from queryable_state.wire.values.value_codec import ValueCodec

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from queryable_state.server.query.router import Deliver
    from queryable_state.server.testing.cluster import InProcessCluster
    from queryable_state.v1 import registration_pb2

KEYS = KeyGroups(Types.STRING(), 128)
VALUES = ValueCodec.of(Types.DOUBLE())


def wire_keys(*keys: str) -> list[bytes]:
    return [KEYS.wire_key(key) for key in keys]


async def described(address: str) -> query_pb2.ServerDescription:
    """The server at an address as it describes itself."""
    async with grpc.aio.insecure_channel(address) as channel:
        stub: Any = query_pb2_grpc.QueryableStateStub(channel)
        return await stub.DescribeServer(  # type: ignore[no-any-return]
            query_pb2.DescribeServerRequest(), timeout=DEADLINE_S
        )


async def frame_port_of(address: str) -> int:
    """The frame port of the server at an address."""
    return (await described(address)).frames.port


class Frames:
    """A frame connection by hand, byte by byte."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self._frames = FrameReader(1 << 20)

    @classmethod
    async def connect(cls, port: int, first: bytes) -> Frames:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(first)
        return cls(reader, writer)

    async def response(self) -> query_pb2.ServerFrame:
        async with asyncio.timeout(DEADLINE_S):
            while (frame := self._frames.take()) is None:
                data = await self.reader.read(65536)
                assert data, "the server hung up"
                self._frames.feed(data)
        return query_pb2.ServerFrame.FromString(frame)

    async def refusal(self) -> QueryableStateError:
        """Why the server hangs up; it has to."""
        refusal = QueryableStateError.from_proto((await self.response()).error)
        async with asyncio.timeout(DEADLINE_S):
            assert await self.reader.read() == b""
        return refusal


class RawStream:
    """A frame connection to the server at HOST:PORT, message by message."""

    def __init__(self, address: str) -> None:
        self._address = address

    async def connect(self) -> Frames:
        self.frames = await Frames.connect(await frame_port_of(self._address), PREAMBLE)
        return self.frames

    async def greet(self) -> query_pb2.ServerHello:
        await self.connect()
        self.write(query_pb2.ClientFrame.FromString(client_hello("test")))
        response = await self.frames.response()
        assert response.WhichOneof("frame") == "hello"
        return response.hello

    def write(self, frame: query_pb2.ClientFrame) -> None:
        self.frames.writer.write(framed(frame.SerializeToString()))

    def send(self, **fields: Any) -> None:
        query = query_pb2.Query(**({"id": 1, "deadline_ms": 10_000} | fields))
        self.write(query_pb2.ClientFrame(query=query))

    async def answer(self) -> query_pb2.Answer:
        response = await self.frames.response()
        assert response.WhichOneof("frame") == "answer"
        return response.answer

    async def ask(self, **fields: Any) -> list[query_pb2.Answer]:
        """All parts of the answer to one query."""
        self.send(**fields)
        parts = [await self.answer()]
        while not parts[-1].last:
            parts.append(await self.answer())
        return parts

    async def __aenter__(self) -> Self:
        await self.greet()
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        self.frames.writer.close()


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
    """A router of one session, for frame connections: they ask for nothing else."""

    deliver: Deliver

    def session(self, deliver: Deliver, authorization: str = "") -> QuerySession:
        self.deliver = deliver
        return self

    answers = scan = watch = measure = None  # type: ignore[assignment]
    locate = registered = list_jobs = list_states = None  # type: ignore[assignment]
    describe_job = list_servers = hot_keys = None  # type: ignore[assignment]

    async def aclose(self) -> None:
        """Holds nothing."""


class Mute(OneSession):
    """Never answers a query."""

    def ask(self, query: query_pb2.Query, frame: bytes) -> bytes | None:
        return None


@contextlib.asynccontextmanager
async def mute_frames(server_id: str) -> AsyncIterator[registration_pb2.FrameEndpoint]:
    """A frame port whose server says hello and then nothing."""
    info = ServiceInfo(server_id=server_id, role=query_pb2.OWNER, limits=Limits())
    server = FrameServer(Mute(), info, OpenStreams(info))
    port = server.add_port("127.0.0.1:0")
    await server.start()
    try:
        yield frame_endpoint(port)
    finally:
        await server.aclose()
