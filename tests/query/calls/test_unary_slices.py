"""Slices of lists in unary calls, in JSON and encoded."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import grpc.aio
import pytest
from tests.query.streams import wire_keys

from queryable_state.server.testing.cluster import declare
from queryable_state.v1 import query_pb2, query_pb2_grpc, registration_pb2
from queryable_state.wire.errors import InvalidRequestError
from queryable_state.wire.status import error_from_call

if TYPE_CHECKING:
    from queryable_state.server.testing.cluster import InProcessCluster, InProcessJob

SLICE = query_pb2.SLICE


@pytest.fixture
async def lists(cluster: InProcessCluster) -> InProcessJob:
    started = cluster.job(
        "lists",
        declare("all", "string", "bigint", kind=registration_pb2.LIST),
        declare("words", "string", "bigint", kind=registration_pb2.MAP, map_key_type="string"),
    )
    await started.run(0, {"all": {f"sensor_{n}": [n, 2, 3] for n in range(100)}})
    return started


async def _call(channel: grpc.aio.Channel, name: str, request: Any) -> Any:
    try:
        return await getattr(query_pb2_grpc.QueryableStateStub(channel), name)(request, timeout=10)
    except grpc.aio.AioRpcError as failure:
        raise error_from_call(failure, "server") from None


async def _get(channel: grpc.aio.Channel, **fields: Any) -> query_pb2.GetKvStateResponse:
    given: dict[str, Any] = {"state_name": "all", "read": SLICE} | fields
    return await _call(  # type: ignore[no-any-return]
        channel, "GetKvState", query_pb2.GetKvStateRequest(**given)
    )


async def _batch(channel: grpc.aio.Channel, **fields: Any) -> query_pb2.BatchGetKvStateResponse:
    given: dict[str, Any] = {"state_name": "all", "read": SLICE} | fields
    return await _call(  # type: ignore[no-any-return]
        channel, "BatchGetKvState", query_pb2.BatchGetKvStateRequest(**given)
    )


async def test_a_slice_of_a_list_is_json_with_its_place(
    channel: grpc.aio.Channel, lists: InProcessJob
) -> None:
    wanted = query_pb2.ListRange(start=-2, limit=5)
    one = await _get(channel, key_json='"sensor_7"', range=wanted)
    assert json.loads(one.value_json) == {"elements": [2, 3], "start": 1, "limit": 5, "length": 3}
    whole = await _get(channel, key_json='"sensor_7"')
    assert json.loads(whole.value_json)["elements"] == [7, 2, 3]
    keys = [f'"sensor_{n}"' for n in range(20)]
    many = await _batch(
        channel,
        keys_json=keys,
        ranges=[query_pb2.ListRange(start=n % 3, limit=1) for n in range(20)],
    )
    assert [json.loads(result.value_json)["elements"] for result in many.results] == [
        [[n, 2, 3][n % 3]] for n in range(20)
    ]


async def test_a_slice_of_an_encoded_key_is_encoded(
    channel: grpc.aio.Channel, lists: InProcessJob
) -> None:
    [key] = wire_keys("sensor_7")
    wanted = query_pb2.ListRange(limit=1)
    answer = await _get(channel, encoded_key=key, range=wanted)
    found = query_pb2.ListSlice.FromString(answer.records.values[0])
    assert (found.start, found.limit, found.length) == (0, 1, 3)


async def test_slices_as_of_one_batch_are_of_one_batch(
    channel: grpc.aio.Channel, lists: InProcessJob
) -> None:
    many = await _batch(
        channel,
        keys_json=[f'"sensor_{n}"' for n in range(20)],
        ranges=[query_pb2.ListRange(limit=1)],
        one_cut=True,
    )
    assert [json.loads(result.value_json)["elements"] for result in many.results] == [
        [n] for n in range(20)
    ]


async def test_ranges_that_no_read_takes_are_refused(
    channel: grpc.aio.Channel, lists: InProcessJob
) -> None:
    wanted = query_pb2.ListRange(limit=1)
    with pytest.raises(InvalidRequestError, match="`ranges` are for SLICE"):
        await _get(channel, key_json='"sensor_7"', read=query_pb2.SIZE, range=wanted)
    with pytest.raises(InvalidRequestError, match="2 ranges for 3 keys"):
        await _batch(channel, keys_json=['"a"'] * 3, ranges=[wanted] * 2)
    with pytest.raises(InvalidRequestError, match="only a LIST has slices"):
        await _get(channel, key_json='"sensor_7"', state_name="words")
