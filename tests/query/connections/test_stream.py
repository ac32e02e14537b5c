"""Frame connections: hello, queries, refusals, limits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import grpc.aio
import pytest
from tests.query.streams import RawStream, described, keys_of_server, state_id_of, wire_keys

from queryable_state.server.config.limits import Limits
from queryable_state.v1 import query_pb2, query_pb2_grpc
from queryable_state.wire.errors import Reason
from queryable_state.wire.frames.stream_hello import MAX_VERSION, MIN_VERSION, client_hello

if TYPE_CHECKING:
    from queryable_state.server.query.proxy.proxy_server import ProxyServer
    from queryable_state.server.testing.cluster import InProcessCluster, InProcessJob


async def test_the_server_tells_who_it_is_and_its_limits(
    proxy: ProxyServer, cluster: InProcessCluster
) -> None:
    """In its hello, to whoever asks for its description, and with the place of a state."""
    stream = RawStream(proxy.address)
    hello = await stream.greet()
    assert hello.role == query_pb2.PROXY
    assert hello.protocol_version == MAX_VERSION
    assert hello.limits == Limits().to_proto()
    assert hello.server_id == proxy.server_id
    stream.frames.writer.close()
    owner = cluster.servers[0]
    told = await described(owner.addresses.query)
    assert (told.server_id, told.role) == (owner.server_id, query_pb2.OWNER)
    assert (told.frames.min_version, told.frames.max_version) == (MIN_VERSION, MAX_VERSION)
    async with grpc.aio.insecure_channel(proxy.address) as channel:
        stub: Any = query_pb2_grpc.QueryableStateStub(channel)
        located = await stub.LocateState(query_pb2.LocateStateRequest(state_name="last"))
    assert located.server == await described(proxy.address)
    [first, _] = located.location.owners
    assert first.frames in [
        (await described(server.addresses.query)).frames for server in cluster.servers
    ]


@pytest.mark.parametrize(
    ("versions", "agreed"),
    [((1, 0), 1), ((1, 1), 1), ((1, 9), 1), ((0, 0), 0), ((7, 0), 0), ((2, 9), 0), ((5, 1), 0)],
)
async def test_both_sides_take_the_newest_version_that_they_speak(
    proxy: ProxyServer, versions: tuple[int, int], agreed: int
) -> None:
    """A client without one is refused by name, with both ranges."""
    stream = RawStream(proxy.address)
    frames = await stream.connect()
    hello = query_pb2.ClientHello(
        min_version=versions[0], max_version=versions[1], client="future/2"
    )
    stream.write(query_pb2.ClientFrame(hello=hello))
    if agreed:
        assert (await frames.response()).hello.protocol_version == agreed
    else:
        refusal = await frames.refusal()
        assert refusal.reason == Reason.PROTOCOL_MISMATCH
        assert "future/2" in str(refusal)
        assert "speaks version 1 of the frame protocol" in str(refusal)
    frames.writer.close()


async def test_a_connection_begins_with_hello_and_has_one(proxy: ProxyServer) -> None:
    early = RawStream(proxy.address)
    frames = await early.connect()
    early.send(state_id=1, keys=wire_keys("sensor_1"))
    assert (await frames.refusal()).reason == Reason.INVALID_REQUEST
    frames.writer.close()
    async with RawStream(proxy.address) as late:
        late.write(query_pb2.ClientFrame(hello=query_pb2.ClientHello(min_version=1)))
        assert (await late.answer()).error.reason == Reason.INVALID_REQUEST


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"keys": []}, Reason.INVALID_REQUEST),
        ({"state_id": 0}, Reason.INVALID_REQUEST),
        ({"keys": [b"\x00"]}, Reason.INVALID_REQUEST),
        ({"keys": [b""]}, Reason.INVALID_REQUEST),
        ({"keys": [b"\xff\xffkey"]}, Reason.INVALID_REQUEST),
        ({"keys": [b"\x00\x01" + b"x" * 65_536]}, Reason.LIMIT_EXCEEDED),
        ({"keys": [b"\x00\x01x"] * 4097}, Reason.LIMIT_EXCEEDED),
        ({"state_id": 4_000_000_000}, Reason.UNKNOWN_STATE),
        ({"id": 1 << 63}, Reason.INVALID_REQUEST),
    ],
    ids=lambda value: "" if isinstance(value, int) else "-".join(value)[:20],
)
async def test_a_query_that_cannot_be_answered_is_refused_and_the_next_is_answered(
    proxy: ProxyServer,
    cluster: InProcessCluster,
    job: InProcessJob,
    fields: dict[str, Any],
    reason: int,
) -> None:
    state_id = await state_id_of(cluster)
    good: dict[str, Any] = {"state_id": state_id, "keys": wire_keys("sensor_1")}
    async with RawStream(proxy.address) as stream:
        # Once with the state unknown to the proxy, once with its location cached.
        for query_id in (1, 3):
            [refused] = await stream.ask(**(good | {"id": query_id} | fields))
            assert (refused.error.reason, refused.last) == (reason, True)
            [answered] = await stream.ask(**(good | {"id": query_id + 1}))
            assert len(answered.values) == 1


async def test_queries_of_one_id_must_not_overlap(
    proxy: ProxyServer, cluster: InProcessCluster, job: InProcessJob
) -> None:
    state_id = await state_id_of(cluster)
    async with RawStream(proxy.address) as stream:
        for _ in range(2):
            stream.send(id=5, state_id=state_id, keys=wire_keys("sensor_1"))
        answers = [await stream.answer(), await stream.answer()]
        assert sorted(len(answer.values) for answer in answers) == [0, 1]
        [again] = await stream.ask(id=5, state_id=state_id, keys=wire_keys("sensor_1"))
        assert len(again.values) == 1


async def test_more_queries_in_flight_than_allowed_are_told_to_wait(
    cluster: InProcessCluster, job: InProcessJob
) -> None:
    """The ones within the limit are answered."""
    proxy = await cluster.add_proxy(limits=Limits(queries_in_flight=3))
    state_id = await state_id_of(cluster)
    async with RawStream(proxy.address) as stream:
        for query_id in range(1, 31):
            stream.send(id=query_id, state_id=state_id, keys=wire_keys("sensor_1"))
        answers = [await stream.answer() for _ in range(30)]
        assert {answer.id for answer in answers} == set(range(1, 31))
        refused = [answer.error for answer in answers if answer.HasField("error")]
        assert len(refused) < 30
        assert {error.reason for error in refused} <= {Reason.OVERLOADED}
        assert all(error.retry_after_ms for error in refused)


async def test_a_server_takes_only_so_many_streams(
    cluster: InProcessCluster, job: InProcessJob
) -> None:
    proxy = await cluster.add_proxy(limits=Limits(streams=2))
    async with RawStream(proxy.address), RawStream(proxy.address):
        third = RawStream(proxy.address)
        frames = await third.connect()
        third.write(query_pb2.ClientFrame.FromString(client_hello("third")))
        assert (await frames.refusal()).reason == Reason.OVERLOADED
        frames.writer.close()


async def test_a_server_refuses_keys_it_does_not_own(
    cluster: InProcessCluster, job: InProcessJob
) -> None:
    """On the server's own port; those it owns are answered beside."""
    mine, other = keys_of_server(cluster, 0)[0], keys_of_server(cluster, 1)[0]
    state_id = await state_id_of(cluster)
    async with (
        RawStream(cluster.servers[0].addresses.query) as stream,
    ):
        [answer] = await stream.ask(state_id=state_id, keys=wire_keys(mine, other))
    assert len(answer.values) == 1
    [failed] = answer.failed
    assert (list(failed.indexes), failed.error.reason) == ([1], Reason.NOT_OWNER)
