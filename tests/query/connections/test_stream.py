"""What a stream asks of its client, and what it gives."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import grpc.aio
import pytest
from tests.query.streams import RawStream, keys_of_server, state_id_of, wire_keys

from queryable_state.server.settings import Limits
from queryable_state.v1 import query_pb2
from queryable_state.wire.errors import QueryableStateError, Reason
from queryable_state.wire.frames.frame_ports import FramePorts
from queryable_state.wire.frames.query_stream import open_query_stream
from queryable_state.wire.status import error_from_call

if TYPE_CHECKING:
    from queryable_state.server.testing.cluster import InProcessCluster, InProcessJob


async def _refusal(call: Any) -> QueryableStateError:
    try:
        while await call.read() is not grpc.aio.EOF:
            pass
    except grpc.aio.AioRpcError as failure:
        return error_from_call(failure, "server")
    raise AssertionError("the stream ended well")


async def test_the_server_tells_who_it_is_and_its_limits(
    channel: grpc.aio.Channel, job: InProcessJob, cluster: InProcessCluster
) -> None:
    hello = await RawStream(channel).greet()
    assert hello.role == query_pb2.PROXY
    assert hello.limits == Limits().to_proto()
    async with grpc.aio.insecure_channel(cluster.servers[0].addresses.query) as server:
        hello = await RawStream(server).greet()
        assert hello.role == query_pb2.OWNER
        assert hello.server_id == cluster.servers[0].server_id


async def test_another_protocol_version_is_refused_by_name(channel: grpc.aio.Channel) -> None:
    stream = RawStream(channel)
    hello = query_pb2.ClientHello(protocol_version=7, client="future/2")
    await stream.call.write(query_pb2.StreamKvStateRequest(hello=hello))
    refusal = await _refusal(stream.call)
    assert refusal.reason == Reason.PROTOCOL_MISMATCH
    assert "future/2" in str(refusal)


async def test_a_stream_begins_with_hello_and_has_one(
    channel: grpc.aio.Channel, job: InProcessJob
) -> None:
    early = RawStream(channel)
    await early.send(state_id=1, keys=wire_keys("sensor_1"))
    assert (await _refusal(early.call)).reason == Reason.INVALID_REQUEST
    async with RawStream(channel) as late:
        await late.call.write(
            query_pb2.StreamKvStateRequest(hello=query_pb2.ClientHello(protocol_version=1))
        )
        assert (await late.answer()).error.reason == Reason.INVALID_REQUEST


async def test_bytes_that_are_no_frame_end_the_stream_alone(
    channel: grpc.aio.Channel, job: InProcessJob
) -> None:
    method: Any = channel.stream_stream("/queryable_state.v1.QueryableState/StreamKvState")
    garbage = method()
    await garbage.write(b"\xff\xff\xff\xff")
    assert (await _refusal(garbage)).reason == Reason.INVALID_REQUEST
    async with RawStream(channel) as stream:
        assert not (await stream.ask(state_id=1 << 31, keys=wire_keys("x")))[0].values


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
    channel: grpc.aio.Channel,
    cluster: InProcessCluster,
    job: InProcessJob,
    fields: dict[str, Any],
    reason: int,
) -> None:
    state_id = await state_id_of(cluster)
    good: dict[str, Any] = {"state_id": state_id, "keys": wire_keys("sensor_1")}
    async with RawStream(channel) as stream:
        # Once with the state unknown to the proxy, once with its location cached.
        for query_id in (1, 3):
            [refused] = await stream.ask(**(good | {"id": query_id} | fields))
            assert (refused.error.reason, refused.last) == (reason, True)
            [answered] = await stream.ask(**(good | {"id": query_id + 1}))
            assert len(answered.values) == 1


async def test_queries_of_one_id_must_not_overlap(
    channel: grpc.aio.Channel, cluster: InProcessCluster, job: InProcessJob
) -> None:
    state_id = await state_id_of(cluster)
    async with RawStream(channel) as stream:
        for _ in range(2):
            await stream.send(id=5, state_id=state_id, keys=wire_keys("sensor_1"))
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
    async with grpc.aio.insecure_channel(proxy.address) as channel, RawStream(channel) as stream:
        for query_id in range(1, 31):
            await stream.send(id=query_id, state_id=state_id, keys=wire_keys("sensor_1"))
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
    async with (
        grpc.aio.insecure_channel(proxy.address) as channel,
        RawStream(channel),
        RawStream(channel),
    ):
        third = RawStream(channel)
        assert (await _refusal(third.call)).reason == Reason.OVERLOADED


async def test_the_last_answers_come_after_the_client_ended_its_side(
    channel: grpc.aio.Channel, cluster: InProcessCluster, job: InProcessJob
) -> None:
    state_id = await state_id_of(cluster)
    async with RawStream(channel) as stream:
        for query_id in range(1, 4):
            await stream.send(id=query_id, state_id=state_id, keys=wire_keys("sensor_1"))
        await stream.call.done_writing()
        assert {(await stream.answer()).id for _ in range(3)} == {1, 2, 3}
        assert await stream.call.read() is grpc.aio.EOF


async def test_a_server_refuses_keys_it_does_not_own(
    cluster: InProcessCluster, job: InProcessJob
) -> None:
    """On the server's own port; those it owns are answered beside."""
    mine, other = keys_of_server(cluster, 0)[0], keys_of_server(cluster, 1)[0]
    state_id = await state_id_of(cluster)
    async with (
        grpc.aio.insecure_channel(cluster.servers[0].addresses.query) as channel,
        RawStream(channel) as stream,
    ):
        [answer] = await stream.ask(state_id=state_id, keys=wire_keys(mine, other))
    assert len(answer.values) == 1
    [failed] = answer.failed
    assert (list(failed.indexes), failed.error.reason) == ([1], Reason.NOT_OWNER)


async def test_an_asker_learns_why_a_stream_cannot_be_opened(cluster: InProcessCluster) -> None:
    """Nobody there, and somebody of another kind there: the coordinator."""
    for address in ("127.0.0.1:1", cluster.coordinator.address):
        async with grpc.aio.insecure_channel(address) as channel:
            with pytest.raises(QueryableStateError) as raised:
                await open_query_stream(
                    channel,
                    address,
                    server_id="",
                    frame_ports=FramePorts(),
                    client="test",
                    on_frame=lambda frame: None,
                    on_end=lambda error: None,
                    timeout_s=2,
                )
            assert raised.value.reason in (
                Reason.UNAVAILABLE,
                Reason.UNSUPPORTED,
                Reason.UNAUTHENTICATED,
            )
