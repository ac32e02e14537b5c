"""Size estimates of a state, from owners and from proxies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import grpc.aio
import pytest

from queryable_state.server.query.proxy.size_estimate import summed
from queryable_state.v1 import query_pb2, query_pb2_grpc
from queryable_state.wire.errors import InvalidRequestError, Reason, RetryLaterError
from queryable_state.wire.status import error_from_call

if TYPE_CHECKING:
    from queryable_state.server.testing.cluster import InProcessCluster, InProcessJob


async def _measure(
    channel: grpc.aio.Channel, *, timeout_s: float = 10.0, **fields: Any
) -> query_pb2.MeasureStateResponse:
    stub: Any = query_pb2_grpc.QueryableStateStub(channel)
    given = {"job": "sensors", "state_name": "last"} | fields
    request = query_pb2.MeasureStateRequest(**given)
    try:
        response = await stub.MeasureState(request, timeout=timeout_s)
    except grpc.aio.AioRpcError as failure:
        raise error_from_call(failure, "server") from None
    return response  # type: ignore[no-any-return]


async def test_a_proxy_sums_what_its_owners_have(
    channel: grpc.aio.Channel, cluster: InProcessCluster, job: InProcessJob
) -> None:
    whole = await _measure(channel)
    assert whole.complete
    assert whole.records == sum(part.records for part in whole.parts) == 100
    assert whole.bytes == sum(part.bytes for part in whole.parts) > 0
    assert [(part.first_key_group, part.last_key_group) for part in whole.parts] == [
        (0, 63),
        (64, 127),
    ]
    assert {part.info.server_id for part in whole.parts} == {
        server.server_id for server in cluster.servers
    }
    assert {part.info.version for part in whole.parts} == {0}


async def test_a_server_and_its_proxy(cluster: InProcessCluster, job: InProcessJob) -> None:
    server = cluster.servers[0]
    async with grpc.aio.insecure_channel(server.addresses.query) as channel:
        own = await _measure(channel)
        assert len(own.parts) == 1
        assert not own.complete
    async with grpc.aio.insecure_channel(server.addresses.proxy) as channel:
        assert (await _measure(channel)).records == 100
        with pytest.raises(InvalidRequestError, match="no state of its own"):
            await _measure(channel, placement_version=3)


async def test_the_failure_of_an_owner_stands_in_its_part(
    channel: grpc.aio.Channel, cluster: InProcessCluster, job: InProcessJob
) -> None:
    await _measure(channel)
    gone = cluster.servers[1].server_id
    await cluster.stop_server(cluster.servers[1])
    found = await _measure(channel, timeout_s=1.0)
    assert not found.complete
    [failed] = [part for part in found.parts if part.HasField("error")]
    assert failed.error.reason in (Reason.NO_OWNER, Reason.UNAVAILABLE)
    assert 0 < found.records < 100
    assert gone not in {part.info.server_id for part in found.parts}


async def test_key_groups_that_moved_are_estimated_by_their_new_owner(
    channel: grpc.aio.Channel, cluster: InProcessCluster, job: InProcessJob
) -> None:
    """By a proxy that nobody asks for anything else."""
    await _measure(channel)
    await cluster.stop_server(cluster.servers[1])
    await job.run(1, {"last": {f"sensor_{number}": 5.0 for number in range(100)}})
    found = await _measure(channel)
    assert found.complete
    assert found.records == 100
    assert {part.info.server_id for part in found.parts} == {cluster.servers[0].server_id}


def _part(first: int, last: int, records: int = 1, *, fails: bool = False) -> query_pb2.StatePart:
    part = query_pb2.StatePart(first_key_group=first, last_key_group=last, records=records)
    if fails:
        part.error.CopyFrom(RetryLaterError("gone").to_proto())
    return part


def _ranges(response: query_pb2.MeasureStateResponse) -> list[tuple[int, int, bool]]:
    return [
        (part.first_key_group, part.last_key_group, part.HasField("error"))
        for part in response.parts
    ]


def test_key_groups_that_are_in_no_part_are_one_that_failed() -> None:
    whole = summed([_part(10, 19), _part(0, 4)], 32)
    assert _ranges(whole) == [
        (0, 4, False),
        (5, 9, True),
        (10, 19, False),
        (20, 31, True),
    ]
    assert whole.records == 2
    assert not whole.complete


def test_key_groups_that_are_in_two_parts_count_once() -> None:
    """One of them without an error, where there is one."""
    whole = summed([_part(0, 15, fails=True), _part(0, 15, 3), _part(16, 31), _part(16, 31)], 32)
    assert _ranges(whole) == [(0, 15, False), (16, 31, False)]
    assert whole.records == 4
    assert whole.complete
