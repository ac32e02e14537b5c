"""The unary calls, as grpcurl and other languages make them."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import grpc.aio
import pytest
from tests.query.streams import VALUES, keys_of_server, values_by_position, wire_keys

from queryable_state.server.testing.cluster import declare
from queryable_state.v1 import query_pb2, query_pb2_grpc, registration_pb2
from queryable_state.wire.errors import (
    InvalidRequestError,
    KeyTypeError,
    QueryableStateError,
    Reason,
    UnknownJobError,
    UnknownKeyOrNamespaceError,
    UnknownStateError,
)
from queryable_state.wire.status import error_from_call

if TYPE_CHECKING:
    from queryable_state.server.testing.cluster import InProcessCluster, InProcessJob


@pytest.fixture(params=[False, True], ids=["grpc core", "grpc.aio"])
def plain_grpc(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


async def _call(rpc: Any, request: Any) -> Any:
    try:
        return await rpc(request, timeout=10)
    except grpc.aio.AioRpcError as failure:
        raise error_from_call(failure, "server") from None


async def _get(channel: grpc.aio.Channel, **fields: Any) -> query_pb2.GetKvStateResponse:
    stub: Any = query_pb2_grpc.QueryableStateStub(channel)
    given = {"job": "sensors", "state_name": "last"} | fields
    return await _call(  # type: ignore[no-any-return]
        stub.GetKvState, query_pb2.GetKvStateRequest(**given)
    )


async def test_a_json_key_gets_a_json_value(channel: grpc.aio.Channel) -> None:
    response = await _get(channel, key_json='"sensor_7"')
    assert json.loads(response.value_json) == 7.0
    assert response.info.version == 0
    assert not response.HasField("records")
    listed = await _get(channel, key_json='"sensor_1"', state_name="seen", job="")
    assert json.loads(listed.value_json) == ["a", "b"]


async def test_an_encoded_key_gets_records(channel: grpc.aio.Channel) -> None:
    [key] = wire_keys("sensor_7")
    response = await _get(channel, encoded_key=key)
    assert [VALUES.decode(value) for value in response.records.values] == [7.0]
    assert not response.value_json
    listed = await _get(channel, encoded_key=wire_keys("sensor_1")[0], state_name="seen")
    assert len(listed.records.values) == len(listed.records.elements) == 1


async def test_composite_keys_and_maps_are_json_too(
    channel: grpc.aio.Channel, cluster: InProcessCluster
) -> None:
    job = cluster.job(
        "flights",
        declare(
            "delays",
            "struct<carrier:string,day:int>",
            "bigint",
            kind=registration_pb2.MAP,
            map_key_type="string",
        ),
    )
    await job.run(0, {"delays": {("AA", 3): {"JFK": 5, "LGA": 7}}})
    response = await _get(channel, job="flights", state_name="delays", key_json='["AA", 3]')
    assert json.loads(response.value_json) == {"JFK": 5, "LGA": 7}


async def test_a_server_answers_its_own_keys_on_its_own_port(
    cluster: InProcessCluster, job: InProcessJob
) -> None:
    own = keys_of_server(cluster, 0)[0]
    async with grpc.aio.insecure_channel(cluster.servers[0].addresses.query) as channel:
        response = await _get(channel, key_json=json.dumps(own))
        assert response.info.role == query_pb2.OWNER
        with pytest.raises(QueryableStateError, match="own"):
            await _get(channel, key_json=json.dumps(keys_of_server(cluster, 1)[0]))


@pytest.mark.parametrize(
    ("fields", "error", "text"),
    [
        ({"job": "nojob", "key_json": '"k"'}, UnknownJobError, "sensors"),
        ({"state_name": "nostate", "key_json": '"k"'}, UnknownStateError, "last"),
        ({"key_json": '"k"'}, UnknownKeyOrNamespaceError, "\"k\" of state 'last'"),
        ({"key_json": "7"}, KeyTypeError, "string"),
        ({"key_json": "no json"}, InvalidRequestError, "JSON"),
        ({}, InvalidRequestError, "key_json"),
        ({"encoded_key": b"\xff\xff"}, InvalidRequestError, "key groups"),
        ({"encoded_key": b"\xff"}, InvalidRequestError, "key groups"),
    ],
)
async def test_a_refusal_is_a_status_for_all_and_a_typed_error_for_ours(
    channel: grpc.aio.Channel, fields: dict[str, Any], error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=text):
        await _get(channel, **fields)


async def test_a_batch_get_has_a_part_of_each_owner(
    channel: grpc.aio.Channel, cluster: InProcessCluster
) -> None:
    stub: Any = query_pb2_grpc.QueryableStateStub(channel)
    keys = [f"sensor_{number}" for number in range(100)]
    request = query_pb2.BatchGetKvStateRequest(
        job="sensors", state_name="last", keys=wire_keys(*keys, "nobody")
    )
    answers = list((await _call(stub.BatchGetKvState, request)).answers)
    assert values_by_position(answers, 101) == {n: float(n) for n in range(100)}
    too_many = query_pb2.BatchGetKvStateRequest(
        job="sensors", state_name="last", keys=wire_keys("k") * 4097
    )
    with pytest.raises(InvalidRequestError, match="4,096"):
        await _call(stub.BatchGetKvState, too_many)


async def test_the_proxy_of_a_server_answers_what_the_server_owns_among_others(
    cluster: InProcessCluster, job: InProcessJob
) -> None:
    keys = wire_keys(*(f"sensor_{number}" for number in range(100)), *"abcdefgh")
    request = query_pb2.BatchGetKvStateRequest(state_name="last", keys=keys)
    async with grpc.aio.insecure_channel(cluster.servers[0].addresses.proxy) as channel:
        stub: Any = query_pb2_grpc.QueryableStateStub(channel)
        for _ in range(2):
            answers = list((await _call(stub.BatchGetKvState, request)).answers)
            assert values_by_position(answers, 108) == {n: float(n) for n in range(100)}


async def test_a_key_of_no_key_group_is_refused_in_the_answers_of_a_batch_whoever_is_asked(
    channel: grpc.aio.Channel, cluster: InProcessCluster, job: InProcessJob
) -> None:
    request = query_pb2.BatchGetKvStateRequest(state_name="last", keys=[b"\xff\xffkey"])
    addresses = cluster.servers[0].addresses
    async with (
        grpc.aio.insecure_channel(addresses.proxy) as proxy,
        grpc.aio.insecure_channel(addresses.query) as owner,
    ):
        for asked in (channel, proxy, owner):
            stub: Any = query_pb2_grpc.QueryableStateStub(asked)
            for _ in range(2):
                [answer] = (await _call(stub.BatchGetKvState, request)).answers
                assert answer.error.reason == Reason.INVALID_REQUEST
                assert "key group" in answer.error.message


async def test_every_server_tells_of_jobs_states_and_owners(
    channel: grpc.aio.Channel, cluster: InProcessCluster, job: InProcessJob
) -> None:
    async with grpc.aio.insecure_channel(cluster.servers[0].addresses.query) as server:
        for asked in (channel, server):
            stub: Any = query_pb2_grpc.QueryableStateStub(asked)
            located = await _call(
                stub.LocateState, query_pb2.LocateStateRequest(job=job.job_id, state_name="last")
            )
            assert {owner.address for owner in located.location.owners} == {
                server.addresses.query for server in cluster.servers
            }
            jobs = await _call(stub.ListJobs, query_pb2.ListJobsRequest())
            assert [listed.name for listed in jobs.jobs] == ["sensors"]
            states = await _call(stub.ListStates, query_pb2.ListStatesRequest(job="sensors"))
            assert [state.queryable_name for state in states.states] == ["last", "seen"]


async def test_a_thousand_calls_at_once_are_all_answered(
    channel: grpc.aio.Channel, job: InProcessJob
) -> None:
    """With the defaults of gRPC some of so many fail."""
    stub: Any = query_pb2_grpc.QueryableStateStub(channel)
    calls = [
        stub.GetKvState(
            query_pb2.GetKvStateRequest(
                job="sensors", state_name="last", key_json=f'"sensor_{number % 100}"'
            ),
            timeout=60,
        )
        for number in range(1000)
    ]
    responses = await asyncio.gather(*calls)
    assert [json.loads(response.value_json) for response in responses] == [
        float(number % 100) for number in range(1000)
    ]
