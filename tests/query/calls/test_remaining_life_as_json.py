"""The remaining life of values in JSON answers, for people and grpcurl."""

from __future__ import annotations

from typing import TYPE_CHECKING

import grpc.aio
import pytest

from queryable_state.server.testing.cluster import declare
from queryable_state.v1 import query_pb2, query_pb2_grpc, registration_pb2
from queryable_state.wire.errors import Reason

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from queryable_state.server.testing.cluster import InProcessCluster

HOUR_MS = 3_600_000


@pytest.fixture
async def stub(cluster: InProcessCluster) -> AsyncIterator[query_pb2_grpc.QueryableStateAsyncStub]:
    job = cluster.job(
        "counts",
        declare("last", ttl_ms=HOUR_MS),
        declare("by_word", kind=registration_pb2.MAP, map_key_type="string", ttl_ms=HOUR_MS),
        declare("forever"),
    )
    await job.run(0, {"last": {"a": 1}, "by_word": {"a": {"x": 1}}, "forever": {"a": 1}})
    job.updated_ms -= HOUR_MS
    await job.run(1, {"last": {"b": 1}, "by_word": {"a": {"y": 1}}})
    async with grpc.aio.insecure_channel(cluster.servers[0].addresses.proxy) as channel:
        yield query_pb2_grpc.QueryableStateStub(channel)


async def test_one_key(stub: query_pb2_grpc.QueryableStateAsyncStub) -> None:
    for fields, text in (
        ({"state_name": "last"}, "1"),
        ({"state_name": "by_word"}, '{"x": 1}'),
        ({"state_name": "by_word", "read": query_pb2.ENTRY, "map_key_json": '"x"'}, "1"),
        ({"state_name": "last", "read": query_pb2.EXISTS}, "true"),
    ):
        request = query_pb2.GetKvStateRequest(key_json='"a"', **fields)
        answer = await stub.GetKvState(request)
        assert answer.value_json == text
        assert 0 < answer.remaining_ms <= HOUR_MS
        assert answer.info.ttl_ms == HOUR_MS
    answer = await stub.GetKvState(
        query_pb2.GetKvStateRequest(state_name="forever", key_json='"a"')
    )
    assert not answer.HasField("remaining_ms")
    assert (answer.info.ttl_ms, answer.info.read_time_ms) == (0, 0)


async def test_many_keys_and_a_scan(stub: query_pb2_grpc.QueryableStateAsyncStub) -> None:
    many = await stub.BatchGetKvState(
        query_pb2.BatchGetKvStateRequest(state_name="last", keys_json=['"a"', '"b"'])
    )
    assert 0 < many.results[0].remaining_ms <= HOUR_MS
    assert many.results[1].error.reason == Reason.UNKNOWN_KEY
    assert not many.results[1].HasField("remaining_ms")
    scan = stub.ScanKvState(query_pb2.ScanKvStateRequest(state_name="last", json=True))
    keys = [key async for message in scan for key in message.keys]
    assert [key.key_json for key in keys] == ['"a"']
    assert 0 < keys[0].remaining_ms <= HOUR_MS
