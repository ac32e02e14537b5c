"""Scans over the wire: of one owner, and of all through a proxy."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import grpc.aio
import pytest
from tests.query.scans.scanning import ALL, scan, texts_of, values_of
from tests.query.streams import KEYS, keys_of_server

from queryable_state.server.testing.cluster import declare
from queryable_state.v1 import query_pb2, registration_pb2
from queryable_state.wire.errors import PlacementError, Reason, RetryLaterError, StateLostError

if TYPE_CHECKING:
    from queryable_state.server.testing.cluster import InProcessCluster, InProcessJob


async def test_all_keys_of_all_owners_come_in_the_order_of_their_bytes(
    channel: grpc.aio.Channel, cluster: InProcessCluster
) -> None:
    messages = await scan(channel)
    assert values_of(messages) == ALL
    assert messages[-1].complete
    assert not messages[-1].page_token
    assert {message.info.server_id for message in messages} == {
        server.server_id for server in cluster.servers
    }


async def test_the_proxy_of_a_server_scans_what_the_server_owns_itself(
    cluster: InProcessCluster, job: InProcessJob
) -> None:
    async with grpc.aio.insecure_channel(cluster.servers[0].addresses.proxy) as channel:
        assert values_of(await scan(channel)) == ALL


async def test_a_server_scans_the_key_groups_it_owns_and_refuses_others(
    cluster: InProcessCluster, job: InProcessJob
) -> None:
    own = keys_of_server(cluster, 0)
    groups = sorted(KEYS.of(key) for key in own)
    async with grpc.aio.insecure_channel(cluster.servers[0].addresses.query) as channel:
        messages = await scan(channel, first_key_group=groups[0], last_key_group=groups[-1])
        assert values_of(messages) == {key: ALL[key] for key in own}
        assert messages[-1].complete
        assert {message.info.role for message in messages} == {query_pb2.OWNER}
        with pytest.raises(PlacementError, match="own"):
            await scan(channel)


@pytest.mark.parametrize(
    ("fields", "wanted"),
    [
        ({"prefix_json": '"sensor_9"'}, {key for key in ALL if key.startswith("sensor_9")}),
        ({"prefix_json": '""'}, set(ALL)),
        ({"prefix_key": b"sensor_1\x00"}, {"sensor_1"}),
        ({"start_json": '"sensor_8"'}, {key for key in ALL if key >= "sensor_8"}),
        ({"end_json": '"sensor_12"'}, {key for key in ALL if key < "sensor_12"}),
        (
            {"start_json": '"sensor_3"', "end_key": b"sensor_5\x00\x01"},
            {key for key in ALL if "sensor_3" <= key < "sensor_5"},
        ),
        ({"start_json": '"z"'}, set()),
        ({"start_json": '"b"', "end_json": '"a"'}, set()),
    ],
)
async def test_a_range_and_a_prefix_are_of_encoded_keys(
    channel: grpc.aio.Channel, fields: dict[str, Any], wanted: set[str]
) -> None:
    messages = await scan(channel, **fields)
    assert set(values_of(messages)) == wanted
    assert messages[-1].complete


async def test_people_get_json(channel: grpc.aio.Channel) -> None:
    assert texts_of(await scan(channel, json=True)) == ALL
    listed = await scan(channel, json=True, state_name="seen")
    assert texts_of(listed) == {"sensor_1": ["a", "b"]}
    bare = await scan(channel, json=True, keys_only=True)
    assert texts_of(bare) == dict.fromkeys(ALL)


async def test_keys_only_has_no_records(channel: grpc.aio.Channel) -> None:
    messages = await scan(channel, keys_only=True)
    scanned = [each for message in messages for each in message.keys]
    assert {KEYS.decode_key(each.key) for each in scanned} == set(ALL)
    assert not any(each.HasField("records") for each in scanned)


async def test_a_scan_waits_for_the_batch_it_wants(
    channel: grpc.aio.Channel, job: InProcessJob
) -> None:
    waiting = asyncio.create_task(scan(channel, min_version=1))
    await job.run(1, {"last": {"sensor_0": 100.0}})
    assert values_of(await waiting) == ALL | {"sensor_0": 100.0}
    with pytest.raises(RetryLaterError, match="batch 9") as refused:
        await scan(channel, min_version=9, timeout=2.0)
    assert refused.value.reason == Reason.BEHIND


async def test_maps_come_whole(channel: grpc.aio.Channel, cluster: InProcessCluster) -> None:
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
    stored = {(carrier, day): {"JFK": day, "LGA": -day} for carrier in "AB" for day in range(20)}
    await job.run(0, {"delays": stored})
    messages = await scan(
        channel, job="flights", state_name="delays", json=True, prefix_json='["A"]'
    )
    scanned = [each for message in messages for each in message.keys]
    assert {each.key_json for each in scanned} == {
        f'{{"carrier": "A", "day": {day}}}' for day in range(20)
    }
    assert '{"JFK": 7, "LGA": -7}' in {each.value_json for each in scanned}


async def test_a_scan_finds_the_new_owner_of_key_groups_that_moved(
    channel: grpc.aio.Channel, cluster: InProcessCluster, job: InProcessJob
) -> None:
    await scan(channel)
    await cluster.stop_server(cluster.servers[1])
    await job.run(1, {"last": dict.fromkeys(ALL, 5.0)})
    messages = await scan(channel, allow_incomplete=True)
    assert values_of(messages) == dict.fromkeys(ALL, 5.0)
    assert not messages[-1].complete
    with pytest.raises(StateLostError):
        await scan(channel)
