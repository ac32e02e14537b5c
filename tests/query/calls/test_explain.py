"""Explanations of answers, from a proxy and from an owner."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import grpc.aio
import pytest
from tests.query.streams import (
    KEYS,
    RawStream,
    keys_of_server,
    state_id_of,
    values_by_position,
    wire_keys,
)

from queryable_state.v1 import query_pb2, query_pb2_grpc
from queryable_state.wire.errors import Reason, UnknownStateError
from queryable_state.wire.status import error_from_call

if TYPE_CHECKING:
    from queryable_state.server.query.proxy.proxy_server import ProxyServer
    from queryable_state.server.testing.cluster import InProcessCluster, InProcessJob


async def _explain(channel: grpc.aio.Channel, **fields: Any) -> query_pb2.GetKvStateResponse:
    stub: Any = query_pb2_grpc.QueryableStateStub(channel)
    given: dict[str, Any] = {"job": "sensors", "state_name": "last", "explain": True}
    try:
        response = await stub.GetKvState(query_pb2.GetKvStateRequest(**given | fields), timeout=10)
    except grpc.aio.AioRpcError as failure:
        raise error_from_call(failure, "server") from None
    steps, total_us = response.trace.steps, response.trace.total_us
    begun = [step.begun_us for step in steps if step.role == steps[0].role]
    assert begun == sorted(begun)
    assert all(step.begun_us + step.took_us <= total_us for step in steps)
    return response  # type: ignore[no-any-return]


async def test_a_proxy_tells_its_steps_and_those_of_the_owner(
    channel: grpc.aio.Channel,
    cluster: InProcessCluster,
    job: InProcessJob,
    proxy: ProxyServer,
) -> None:
    key, owner = keys_of_server(cluster, 1)[0], cluster.servers[1]
    await _explain(channel, key_json=json.dumps(key))
    told = await _explain(channel, key_json=json.dumps(key))
    assert told.value_json == f"{key[7:]}.0"
    assert not told.HasField("error")
    trace = told.trace
    assert (trace.owner_id, trace.owner_address) == (owner.server_id, owner.addresses.query)
    assert trace.key_group == KEYS.of(key)
    assert (trace.operator_uid, trace.subtask) == ("operator", 1)
    assert trace.placement_version
    steps = [(step.name, step.role, step.server_id) for step in trace.steps]
    assert steps == [
        ("locate", query_pb2.PROXY, proxy.server_id),
        ("ask owner", query_pb2.PROXY, proxy.server_id),
        ("read", query_pb2.OWNER, owner.server_id),
    ]
    assert trace.steps[0].cache_hit
    assert trace.steps[1].detail.endswith("over frames")
    assert not any(step.retried for step in trace.steps)


async def test_the_proxy_of_the_owner_asks_nobody(
    cluster: InProcessCluster, job: InProcessJob
) -> None:
    server = cluster.servers[0]
    async with grpc.aio.insecure_channel(server.addresses.proxy) as channel:
        told = await _explain(channel, encoded_key=wire_keys(keys_of_server(cluster, 0)[0])[0])
    assert {step.server_id for step in told.trace.steps} == {server.server_id}
    assert [step.name for step in told.trace.steps] == ["locate", "ask owner", "read"]
    assert told.trace.steps[1].detail.endswith("in this process")
    assert len(told.records.values) == 1


async def test_an_owner_tells_what_it_did(cluster: InProcessCluster, job: InProcessJob) -> None:
    server = cluster.servers[0]
    async with grpc.aio.insecure_channel(server.addresses.query) as channel:
        told = await _explain(channel, key_json=json.dumps(keys_of_server(cluster, 0)[0]))
        assert [step.name for step in told.trace.steps] == ["read"]
        assert told.trace.owner_id == server.server_id
        other = await _explain(channel, key_json=json.dumps(keys_of_server(cluster, 1)[0]))
    assert other.error.reason == Reason.NOT_OWNER
    assert not other.trace.owner_id


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
        assert json.loads(told.value_json)["elements"] == 2
    else:
        assert told.value_json == value


async def test_a_missing_key_is_explained_as_of_its_batch(
    channel: grpc.aio.Channel, job: InProcessJob
) -> None:
    told = await _explain(channel, key_json='"nobody"')
    assert told.error.reason == Reason.UNKNOWN_KEY
    assert told.info.server_id == told.trace.owner_id
    assert told.trace.steps[-1].name == "read"
    absent = await _explain(channel, key_json='"nobody"', read=query_pb2.EXISTS)
    assert absent.value_json == "false"


async def test_an_owner_that_is_gone_is_an_attempt_of_the_explanation(
    channel: grpc.aio.Channel, cluster: InProcessCluster, job: InProcessJob
) -> None:
    key = keys_of_server(cluster, 1)[0]
    await _explain(channel, key_json=json.dumps(key))
    gone = cluster.servers[1]
    await cluster.stop_server(gone)
    await job.run(1, {"last": {key: 5.0}})
    told = await _explain(channel, key_json=json.dumps(key), allow_incomplete=True)
    assert told.value_json == "5.0"
    assert told.trace.owner_id == cluster.servers[0].server_id
    attempts = [step for step in told.trace.steps if step.name == "ask owner"]
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


async def test_a_query_of_two_owners_tells_of_both(
    proxy: ProxyServer, cluster: InProcessCluster, job: InProcessJob
) -> None:
    """In the last part of its answer; a query that does not ask for it has no trace."""
    keys = wire_keys(*(f"sensor_{number}" for number in range(100)))
    asked: dict[str, Any] = {"state_id": await state_id_of(cluster), "keys": keys}
    async with RawStream(proxy.address) as stream:
        assert not any(part.HasField("trace") for part in await stream.ask(id=1, **asked))
        parts = await stream.ask(id=2, explain=True, **asked)
        assert [part.HasField("trace") for part in parts] == [part.last for part in parts]
        assert len(values_by_position(parts, 100)) == 100
    steps = parts[-1].trace.steps
    assert [step.name for step in steps] == ["locate", *2 * ["ask owner", "read"]]
    assert {step.server_id for step in steps if step.name == "read"} == {
        server.server_id for server in cluster.servers
    }


async def test_keys_without_an_owner_are_reported_in_time(
    proxy: ProxyServer, cluster: InProcessCluster, job: InProcessJob
) -> None:
    """With every attempt."""
    state_id, [key] = await state_id_of(cluster), wire_keys(keys_of_server(cluster, 1)[0])
    async with RawStream(proxy.address) as stream:
        await stream.ask(id=1, state_id=state_id, keys=[key])
        await cluster.stop_server(cluster.servers[1])
        [answer] = await stream.ask(
            id=2, state_id=state_id, keys=[key], deadline_ms=600, explain=True
        )
    assert answer.error.reason in (Reason.NO_OWNER, Reason.UNAVAILABLE)
    attempts = [step for step in answer.trace.steps if step.name == "ask owner"]
    assert len(attempts) > 1
    assert all(step.retried for step in attempts)
