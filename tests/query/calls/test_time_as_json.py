"""Windows and timers in JSON requests and answers, for people and grpcurl."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import grpc.aio
import pytest
from google.protobuf import json_format

from queryable_state.server.testing.changes import Windows
from queryable_state.server.testing.cluster import declare, windowed
from queryable_state.v1 import query_pb2, query_pb2_grpc, registration_pb2
from queryable_state.wire.errors import QueryableStateError, Reason
from queryable_state.wire.keys.time_window import TimeWindow
from queryable_state.wire.keys.timer_keys import Clock
from queryable_state.wire.status import error_from_call

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from queryable_state.server.testing.cluster import InProcessCluster

HOUR_MS = 3_600_000
FIRST, SECOND = TimeWindow(0, 10), TimeWindow(10, 20)


@pytest.fixture
async def stub(cluster: InProcessCluster) -> AsyncIterator[Any]:
    kind = registration_pb2.StateKind
    job = cluster.job(
        "windows",
        windowed(declare("maxima")),
        windowed(declare("live", ttl_ms=HOUR_MS)),
        windowed(declare("events", "string", "string", kind=kind.LIST)),
        declare("last"),
        declare("operator.timers", kind=kind.TIMER),
    )
    await job.run(
        0,
        {
            "maxima": {"a": Windows({FIRST: 1, SECOND: 2}), "b": Windows({FIRST: 3})},
            "live": {"a": Windows({FIRST: 1})},
            "events": {"a": Windows({FIRST: ["x", "y"]})},
            "last": {"a": 1},
            "operator.timers": {
                "a": {(Clock.EVENT_TIME, 9): True, (Clock.PROCESSING_TIME, 10): True}
            },
        },
    )
    async with grpc.aio.insecure_channel(cluster.servers[0].addresses.proxy) as channel:
        yield query_pb2_grpc.QueryableStateStub(channel)


def as_json(request: type[Any], **fields: Any) -> Any:
    """The request that grpcurl makes of a JSON text."""
    return json_format.Parse(json.dumps(fields), request())


async def get(stub: Any, **fields: Any) -> query_pb2.GetKvStateResponse:
    try:
        answer: query_pb2.GetKvStateResponse = await stub.GetKvState(
            as_json(query_pb2.GetKvStateRequest, **fields)
        )
    except grpc.aio.AioRpcError as failure:
        raise error_from_call(failure, "server") from None
    return answer


async def test_one_window_of_a_key(stub: Any) -> None:
    named = {"state_name": "maxima", "key_json": '"a"'}
    answer = await get(stub, **named, window={"start_ms": 10, "end_ms": "20"})
    assert answer.value_json == "2"
    with pytest.raises(QueryableStateError, match=r"in TimeWindow\(start=1, end=2\)") as missing:
        await get(stub, **named, window={"start_ms": 1, "end_ms": 2})
    assert missing.value.reason == Reason.UNKNOWN_KEY
    with pytest.raises(QueryableStateError, match='JSON: "window"'):
        await get(stub, **named)
    with pytest.raises(QueryableStateError, match="ends before it starts"):
        await get(stub, **named, window={"start_ms": 2, "end_ms": 1})
    with pytest.raises(QueryableStateError, match="has no windows"):
        await get(stub, state_name="last", key_json='"a"', window={"start_ms": 1, "end_ms": 2})


async def test_all_windows_of_a_key(stub: Any) -> None:
    named = {"state_name": "maxima", "key_json": '"a"', "read": "WINDOWS"}
    first = {"window": {"start_ms": 0, "end_ms": 10}, "value": 1}
    second = {"window": {"start_ms": 10, "end_ms": 20}, "value": 2}
    answer = await get(stub, **named)
    assert json.loads(answer.value_json) == [first, second]
    assert not answer.HasField("remaining_ms")
    newest = await get(stub, **named, windows={"limit": 1, "newest": True})
    assert json.loads(newest.value_json) == [second]
    early = await get(stub, **named, windows={"to_ms": 10})
    assert json.loads(early.value_json) == [first]
    nothing = await get(stub, **named | {"key_json": '"nobody"'})
    assert (nothing.value_json, nothing.info.version) == ("[]", answer.info.version)
    lists = await get(stub, state_name="events", key_json='"a"', read="WINDOWS")
    assert json.loads(lists.value_json)[0]["value"] == ["x", "y"]
    live = await get(stub, state_name="live", key_json='"a"', read="WINDOWS")
    [only] = json.loads(live.value_json)
    assert only["remaining_ms"] == live.remaining_ms
    assert 0 < live.remaining_ms <= HOUR_MS


async def test_an_encoded_key_has_its_windows_as_records(stub: Any) -> None:
    located = await stub.LocateState(query_pb2.LocateStateRequest(state_name="maxima"))
    scan = stub.ScanKvState(query_pb2.ScanKvStateRequest(state_name="maxima"))
    keys = [key async for message in scan for key in message.keys]
    assert located.location.registration.HasField("namespace_type")
    assert [(key.window.start_ms, key.window.end_ms) for key in keys if key.key == keys[-1].key]
    answer = await stub.GetKvState(
        query_pb2.GetKvStateRequest(
            state_name="maxima", encoded_key=keys[0].key, read=query_pb2.WINDOWS
        )
    )
    assert answer.windows.windows[0] == keys[0].window
    assert answer.windows.records[0] == keys[0].records
    one = await stub.GetKvState(
        query_pb2.GetKvStateRequest(
            state_name="maxima",
            encoded_key=keys[0].key,
            namespace=TimeWindow(keys[0].window.start_ms, keys[0].window.end_ms).namespace,
        )
    )
    assert list(one.records.values) == list(keys[0].records.values)


async def test_many_keys_of_one_window_and_windows_of_many_keys(stub: Any) -> None:
    batch = query_pb2.BatchGetKvStateRequest
    keys = ['"a"', '"b"', '"c"']
    named = {"state_name": "maxima", "keys_json": keys}
    many = await stub.BatchGetKvState(
        as_json(batch, **named, window={"start_ms": 10, "end_ms": 20})
    )
    assert [result.value_json for result in many.results] == ["2", "", ""]
    assert many.results[1].error.reason == Reason.UNKNOWN_KEY
    every = await stub.BatchGetKvState(
        as_json(batch, **named, read="WINDOWS", windows=[{}, {"limit": 1}, {}], one_cut=True)
    )
    found = [json.loads(result.value_json) for result in every.results]
    assert [[each["value"] for each in windows] for windows in found] == [[1, 2], [3], []]


async def test_scans_have_the_window_of_each_item(stub: Any) -> None:
    fields = {"state_name": "maxima", "json": True}
    scan = stub.ScanKvState(as_json(query_pb2.ScanKvStateRequest, **fields))
    found = {
        (key.key_json, key.window.start_ms): key.value_json
        async for message in scan
        for key in message.keys
    }
    assert found == {('"a"', 0): "1", ('"a"', 10): "2", ('"b"', 0): "3"}
    window = {"start_ms": 10, "end_ms": 20}
    scan = stub.ScanKvState(as_json(query_pb2.ScanKvStateRequest, **fields, window=window))
    assert [key.key_json async for message in scan for key in message.keys] == ['"a"']


async def test_timers(stub: Any) -> None:
    timers = [
        {"clock": "PROCESSING_TIME", "timestamp_ms": 10, "window": None},
        {"clock": "EVENT_TIME", "timestamp_ms": 9, "window": None},
    ]
    answer = await get(stub, state_name="operator.timers", key_json='"a"')
    assert json.loads(answer.value_json) == timers
    fields = {"state_name": "operator.timers", "json": True}
    scan = stub.ScanKvState(as_json(query_pb2.ScanKvStateRequest, **fields))
    keys = [key async for message in scan for key in message.keys]
    assert [(key.key_json, json.loads(key.value_json)) for key in keys] == [('"a"', timers)]
    states = await stub.ListStates(query_pb2.ListStatesRequest(job="windows"))
    assert "operator.timers" in [
        state.queryable_name for state in states.states if state.kind == registration_pb2.TIMER
    ]


async def test_an_explained_answer_has_the_watermark(stub: Any) -> None:
    window = {"start_ms": 0, "end_ms": 10}
    answer = await get(stub, state_name="maxima", key_json='"a"', window=window, explain=True)
    [read] = [step for step in answer.trace.steps if step.name == "read"]
    assert "in window 0 to 10 ms as of batch 0" in read.detail
