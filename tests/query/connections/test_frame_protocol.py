"""The frame protocol as docs/frame-protocol.md describes it, without any code of ours."""

from __future__ import annotations

import asyncio
import struct
from typing import TYPE_CHECKING, Any

import grpc.aio
import pytest
from tests.waiting import DEADLINE_S
from xxhash import xxh64_intdigest

from queryable_state.v1 import errors_pb2, query_pb2, query_pb2_grpc

if TYPE_CHECKING:
    from queryable_state.server.query.proxy.proxy_server import ProxyServer
    from queryable_state.server.testing.cluster import InProcessCluster, InProcessJob


class Connection:
    """A frame connection, from sockets and protobuf alone."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def open(cls, host: str, port: int) -> Connection:
        connection = cls(*await asyncio.open_connection(host, port))
        connection._writer.write(b"QKVS\x00\x00\x00\x01")
        return connection

    def send(self, **fields: Any) -> None:
        message = query_pb2.ClientFrame(**fields).SerializeToString()
        self._writer.write(struct.pack(">I", len(message)) + message)

    async def receive(self) -> query_pb2.ServerFrame:
        async with asyncio.timeout(DEADLINE_S):
            (length,) = struct.unpack(">I", await self._reader.readexactly(4))
            return query_pb2.ServerFrame.FromString(await self._reader.readexactly(length))

    async def is_closed(self) -> bool:
        async with asyncio.timeout(DEADLINE_S):
            return await self._reader.read() == b""

    def close(self) -> None:
        self._writer.close()


def wire_key(text: str, max_parallelism: int) -> bytes:
    """The encoded key of a STRING without zero bytes."""
    hashed = xxh64_intdigest(text.encode(), 42)
    signed = hashed - (1 << 64) if hashed >= 1 << 63 else hashed
    return struct.pack(">H", signed % max_parallelism) + text.encode() + b"\x00\x01"


def double_of(value: bytes) -> float:
    """A DOUBLE value that does not expire, of schema version 1."""
    assert value[:2] == b"\x00\x01"
    (number,) = struct.unpack("<d", value[2:])
    return float(number)


async def located(address: str) -> query_pb2.LocateStateResponse:
    async with grpc.aio.insecure_channel(address) as channel:
        stub: Any = query_pb2_grpc.QueryableStateStub(channel)
        request = query_pb2.LocateStateRequest(job="sensors", state_name="last")
        return await stub.LocateState(request, timeout=DEADLINE_S)  # type: ignore[no-any-return]


HELLO = query_pb2.ClientHello(min_version=1, max_version=1, client="go/0.1")


def test_the_example_of_the_page() -> None:
    assert wire_key("sensor_1", 128) == bytes.fromhex("00 5C 73 65 6E 73 6F 72 5F 31 00 01")


async def test_keys_are_looked_up_at_their_owners(proxy: ProxyServer, job: InProcessJob) -> None:
    place = (await located(proxy.address)).location
    keys = [f"sensor_{number}" for number in range(100)]
    encoded = [wire_key(key, place.registration.max_parallelism) for key in keys]
    found: dict[int, float] = {}
    for owner in place.owners:
        groups = range(owner.first_key_group, owner.last_key_group + 1)
        own = [at for at, key in enumerate(encoded) if struct.unpack(">H", key[:2])[0] in groups]
        host = owner.address.rpartition(":")[0]
        connection = await Connection.open(host, owner.frames.port)
        connection.send(hello=HELLO)
        hello = (await connection.receive()).hello
        assert (hello.protocol_version, hello.server_id) == (1, owner.server_id)
        assert len(own) <= hello.limits.batch_keys
        connection.send(
            query=query_pb2.Query(
                id=1,
                state_id=place.registration.state_id,
                placement_version=place.placement_version,
                read=query_pb2.POINT,
                keys=[encoded[at] for at in own] + [wire_key("nobody", 128)],
                deadline_ms=5000,
            )
        )
        answer = (await connection.receive()).answer
        assert (answer.id, answer.last, answer.part) == (1, True, 0)
        others = {*answer.missing, *(at for failed in answer.failed for at in failed.indexes)}
        assert others == {len(own)}
        found.update(zip(own, map(double_of, answer.values), strict=True))
        connection.close()
    assert found == {number: float(number) for number in range(100)}


async def test_a_proxy_answers_in_parts_and_queries_may_overlap(
    proxy: ProxyServer, job: InProcessJob
) -> None:
    answer = await located(proxy.address)
    host, state = proxy.address.rpartition(":")[0], answer.location.registration
    encoded = [wire_key(f"sensor_{number}", 128) for number in range(100)]
    connection = await Connection.open(host, answer.server.frames.port)
    # Without waiting for the hello of the server.
    connection.send(hello=HELLO)
    for number in (1, 2):
        query = query_pb2.Query(id=number, state_id=state.state_id, keys=encoded)
        connection.send(query=query)
    assert (await connection.receive()).hello.server_id == answer.server.server_id
    parts: dict[int, list[query_pb2.Answer]] = {1: [], 2: []}
    while not all(each and each[-1].last for each in parts.values()):
        part = (await connection.receive()).answer
        parts[part.id].append(part)
    for each in parts.values():
        assert [part.part for part in each] == list(range(len(each)))
        values = {
            at: double_of(value)
            for part in each
            for at, value in zip(part.indexes, part.values, strict=True)
        }
        assert values == {number: float(number) for number in range(100)}
    connection.close()


@pytest.mark.parametrize(
    ("hello", "reason"),
    [
        (query_pb2.ClientHello(min_version=2, max_version=4), errors_pb2.PROTOCOL_MISMATCH),
        (query_pb2.ClientHello(min_version=1, client="x" * 5000), errors_pb2.LIMIT_EXCEEDED),
    ],
    ids=["versions", "length"],
)
async def test_a_refused_hello_is_answered_with_an_error_and_the_end(
    proxy: ProxyServer, hello: query_pb2.ClientHello, reason: int
) -> None:
    server = (await located(proxy.address)).server
    connection = await Connection.open(proxy.address.rpartition(":")[0], server.frames.port)
    connection.send(hello=hello)
    assert (await connection.receive()).error.reason == reason
    assert await connection.is_closed()
    connection.close()


async def test_a_server_that_ends_says_go_away_first_and_why_it_closes(
    cluster: InProcessCluster, job: InProcessJob
) -> None:
    proxy = await cluster.add_proxy(lame_duck_s=DEADLINE_S)
    answer = await located(proxy.address)
    connection = await Connection.open("127.0.0.1", answer.server.frames.port)
    connection.send(hello=HELLO)
    assert (await connection.receive()).hello.server_id
    proxy.shutdown.leave()
    assert (await connection.receive()).go_away.reason == errors_pb2.STOPPING
    state_id = answer.location.registration.state_id
    query = query_pb2.Query(id=5, state_id=state_id, keys=[wire_key("sensor_1", 128)])
    connection.send(query=query)
    assert (await connection.receive()).answer.id == 5
    await proxy.aclose()
    assert (await connection.receive()).error.reason == errors_pb2.STOPPING
    assert await connection.is_closed()
    connection.close()


async def test_the_same_query_is_answered_by_a_unary_call(
    proxy: ProxyServer, job: InProcessJob
) -> None:
    answer = await located(proxy.address)
    state_id = answer.location.registration.state_id
    query = query_pb2.Query(state_id=state_id, keys=[wire_key("sensor_7", 128)])
    async with grpc.aio.insecure_channel(proxy.address) as channel:
        stub: Any = query_pb2_grpc.QueryableStateStub(channel)
        response = await stub.BatchGetKvState(
            query_pb2.BatchGetKvStateRequest(query=query, server_id=answer.server.server_id),
            timeout=DEADLINE_S,
        )
    [part] = response.answers
    assert double_of(part.values[0]) == 7.0
