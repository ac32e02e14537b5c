"""How an answer came about, as a proxy and an owner tell it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import grpc.aio
import pytest
from tests.query.streams import KEYS, keys_of_server, wire_keys

from queryable_state.v1 import query_pb2, query_pb2_grpc
from queryable_state.wire.errors import Reason, UnknownStateError
from queryable_state.wire.status import error_from_call

if TYPE_CHECKING:
    from queryable_state.server.query.proxy.proxy_server import ProxyServer
    from queryable_state.server.testing.cluster import InProcessCluster, InProcessJob


async def _explain(channel: grpc.aio.Channel, **fields: Any) -> query_pb2.ExplainKvStateResponse:
    stub: Any = query_pb2_grpc.QueryableStateStub(channel)
    given = {"job": "sensors", "state_name": "last"} | fields
    try:
        response = await stub.ExplainKvState(query_pb2.GetKvStateRequest(**given), timeout=10)
    except grpc.aio.AioRpcError as failure:
        raise error_from_call(failure, "server") from None
    begun = [step.begun_us for step in response.steps if step.server_id == _first(response)]
    assert begun == sorted(begun)
    assert all(step.begun_us + step.took_us <= response.total_us for step in response.steps)
    return response  # type: ignore[no-any-return]


def _first(response: query_pb2.ExplainKvStateResponse) -> str:
    return response.steps[0].server_id


async def test_a_proxy_tells_its_steps_and_those_of_the_owner(
    channel: grpc.aio.Channel,
    cluster: InProcessCluster,
    job: InProcessJob,
    proxy: ProxyServer,
) -> None:
    key, owner = keys_of_server(cluster, 1)[0], cluster.servers[1]
    await _explain(channel, key_json=json.dumps(key))
    told = await _explain(channel, key_json=json.dumps(key))
    assert told.response.value_json == f"{key[7:]}.0"
    assert not told.HasField("error")
    assert (told.owner_id, told.owner_address) == (owner.server_id, owner.addresses.query)
    assert told.key_group == KEYS.of(key)
    assert told.encoded_key == KEYS.wire_key(key)
    assert told.operator_uid == "operator"
    assert told.placement_version
    steps = [(step.name, step.role, step.server_id) for step in told.steps]
    assert steps == [
        ("locate", query_pb2.PROXY, proxy.server_id),
        ("ask owner", query_pb2.PROXY, proxy.server_id),
        ("locate", query_pb2.OWNER, owner.server_id),
        ("read", query_pb2.OWNER, owner.server_id),
    ]
    assert told.steps[0].cache_hit
    assert not any(step.retried for step in told.steps)


async def test_the_proxy_of_the_owner_asks_nobody(
    cluster: InProcessCluster, job: InProcessJob
) -> None:
    server = cluster.servers[0]
    async with grpc.aio.insecure_channel(server.addresses.proxy) as channel:
        told = await _explain(channel, encoded_key=wire_keys(keys_of_server(cluster, 0)[0])[0])
    assert {step.server_id for step in told.steps} == {server.server_id}
    assert [step.name for step in told.steps] == ["locate", "ask owner", "read"]
    assert len(told.response.records.values) == 1


async def test_an_owner_tells_what_it_did(cluster: InProcessCluster, job: InProcessJob) -> None:
    server = cluster.servers[0]
    async with grpc.aio.insecure_channel(server.addresses.query) as channel:
        told = await _explain(channel, key_json=json.dumps(keys_of_server(cluster, 0)[0]))
        assert [step.name for step in told.steps] == ["locate", "read"]
        assert told.owner_address == server.addresses.query
        other = await _explain(channel, key_json=json.dumps(keys_of_server(cluster, 1)[0]))
    assert other.error.reason == Reason.NOT_OWNER
    assert other.owner_address == cluster.servers[1].addresses.query


@pytest.mark.parametrize(
    ("read", "value"),
    [
        (query_pb2.EXISTS, "true"),
        (query_pb2.SIZE, None),
        (query_pb2.PREFIX, '["a", "b"]'),
    ],
)
async def test_every_kind_of_read_comes_through(
    channel: grpc.aio.Channel, job: InProcessJob, read: Any, value: str | None
) -> None:
    told = await _explain(channel, state_name="seen", key_json='"sensor_1"', read=read)
    if value is None:
        assert json.loads(told.response.value_json)["elements"] == 2
    else:
        assert told.response.value_json == value


async def test_a_missing_key_is_explained_as_of_its_batch(
    channel: grpc.aio.Channel, job: InProcessJob
) -> None:
    told = await _explain(channel, key_json='"nobody"')
    assert told.error.reason == Reason.UNKNOWN_KEY
    assert told.response.info.server_id == told.owner_id
    assert told.steps[-1].name == "read"
    absent = await _explain(channel, key_json='"nobody"', read=query_pb2.EXISTS)
    assert absent.response.value_json == "false"


async def test_an_owner_that_is_gone_is_an_attempt_that_is_told(
    channel: grpc.aio.Channel, cluster: InProcessCluster, job: InProcessJob
) -> None:
    key = keys_of_server(cluster, 1)[0]
    await _explain(channel, key_json=json.dumps(key))
    gone = cluster.servers[1]
    await cluster.stop_server(gone)
    await job.run(1, {"last": {key: 5.0}})
    told = await _explain(channel, key_json=json.dumps(key), allow_incomplete=True)
    assert told.response.value_json == "5.0"
    assert told.owner_id == cluster.servers[0].server_id
    attempts = [step for step in told.steps if step.name == "ask owner"]
    # The coordinator may have told of the new owner by then.
    if len(attempts) > 1:
        assert gone.server_id in attempts[0].detail
        assert attempts[0].retried
    assert not attempts[-1].retried


async def test_what_cannot_be_located_is_a_status(
    channel: grpc.aio.Channel, job: InProcessJob
) -> None:
    with pytest.raises(UnknownStateError):
        await _explain(channel, state_name="nostate", key_json='"a"')
