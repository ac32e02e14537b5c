"""The other kinds of question, over the wire, to a checkpoint."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from tests.serve.conftest import SENSORS

from queryable_state.v1 import query_pb2

if TYPE_CHECKING:
    from tests.serve.conftest import Ended

    from queryable_state.server.checkpoint_server.server import CheckpointServer


async def _scan(stub: Any, **fields: Any) -> list[query_pb2.ScanKvStateResponse]:
    request = query_pb2.ScanKvStateRequest(state_name="last", **fields)
    return [message async for message in stub.ScanKvState(request, timeout=20)]


async def test_a_checkpoint_is_scanned_page_by_page(stub: Any, ended: Ended) -> None:
    found: dict[str, float] = {}
    token = b""
    while True:
        page = await _scan(stub, json=True, limit=64, page_token=token)
        found |= {
            json.loads(each.key_json): json.loads(each.value_json)
            for message in page
            for each in message.keys
        }
        assert {message.info.checkpoint for message in page} == {str(ended.newest)}
        token = page[-1].page_token
        if not token:
            break
    assert page[-1].complete
    assert len(found) == SENSORS
    assert found["sensor_1"] == 71.5


async def test_a_checkpoint_answers_entries_slices_sizes_and_one_cut(
    stub: Any, ended: Ended
) -> None:
    entry = await stub.GetKvState(
        query_pb2.GetKvStateRequest(
            state_name="counts",
            key_json='"sensor_1"',
            read=query_pb2.ENTRY,
            map_key_json='"y"',
        )
    )
    assert entry.value_json == "2"
    size = await stub.GetKvState(
        query_pb2.GetKvStateRequest(state_name="seen", key_json='"sensor_1"', read=query_pb2.SIZE)
    )
    assert json.loads(size.value_json)["elements"] == 2
    last = await stub.GetKvState(
        query_pb2.GetKvStateRequest(
            state_name="seen",
            key_json='"sensor_1"',
            read=query_pb2.SLICE,
            range=query_pb2.ListRange(start=-1),
        )
    )
    assert (json.loads(last.value_json)["start"], json.loads(last.value_json)["length"]) == (1, 2)
    cut = await stub.BatchGetKvState(
        query_pb2.BatchGetKvStateRequest(
            state_name="last", keys_json=['"sensor_1"', '"sensor_2"'], one_cut=True
        )
    )
    assert [result.value_json for result in cut.results] == ["71.5", "2.0"]


async def test_a_checkpoint_is_measured_and_explains_itself(
    stub: Any, server: CheckpointServer
) -> None:
    size = await stub.MeasureState(query_pb2.MeasureStateRequest(state_name="last"))
    assert size.complete
    assert size.records >= SENSORS
    told = await stub.GetKvState(
        query_pb2.GetKvStateRequest(state_name="last", key_json='"sensor_1"', explain=True)
    )
    assert told.value_json == "71.5"
    assert [step.name for step in told.trace.steps] == ["read"]
    assert {step.role for step in told.trace.steps} == {query_pb2.CHECKPOINT}
    assert told.trace.owner_id == server.server_id
