"""Scans over the wire: of one owner, and of all through a proxy."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any

import grpc.aio
import pytest
from tests.query.scans.scanning import DEADLINE_S, scan, scan_call, taken, texts_of, values_of
from tests.query.streams import KEYS, keys_of_server

from queryable_state.server.testing.cluster import declare
from queryable_state.v1 import query_pb2, registration_pb2
from queryable_state.wire.errors import (
    InvalidRequestError,
    PlacementError,
    QueryTimeoutError,
    Reason,
    RetryLaterError,
    StateLostError,
    VersionGoneError,
)

if TYPE_CHECKING:
    from queryable_state.server.testing.cluster import InProcessCluster, InProcessJob

ALL = {f"sensor_{number}": float(number) for number in range(100)}


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


@pytest.mark.parametrize("limit", [1, 7, 50, 99, 100, 101])
@pytest.mark.parametrize("as_json", [False, True])
async def test_pages_make_up_the_whole(
    channel: grpc.aio.Channel, limit: int, as_json: bool
) -> None:
    """Of the batch of the first page, whatever is committed meanwhile."""
    found: dict[str, float] = {}
    token = b""
    for _ in range(-(-len(ALL) // limit) + 1):
        messages = await scan(channel, limit=limit, page_token=token, json=as_json)
        page = texts_of(messages) if as_json else values_of(messages)
        assert len(page) <= limit
        assert not found.keys() & page.keys()
        found.update(page)
        token = messages[-1].page_token
        assert messages[-1].complete == (not token)
        if not token:
            break
    assert not token
    assert found == ALL


async def test_a_token_goes_on_as_of_its_batch_until_that_is_gone(
    channel: grpc.aio.Channel, job: InProcessJob
) -> None:
    first = await scan(channel, limit=10)
    token = first[-1].page_token
    await job.run(1, {"last": dict.fromkeys(ALL, -1.0)})
    rest = await scan(channel, page_token=token)
    assert values_of(first) | values_of(rest) == ALL
    assert rest[0].info.version == 0
    for batch in range(2, 4):
        await job.run(batch, {"last": dict.fromkeys(ALL, -1.0)})
    with pytest.raises(VersionGoneError):
        await _scan_on_and_on(channel, page_token=token)


async def _scan_on_and_on(channel: grpc.aio.Channel, **fields: Any) -> None:
    """Until it is refused: the bulk thread folds in its own time."""
    async with asyncio.timeout(DEADLINE_S):
        while True:
            await scan(channel, **fields)


async def test_a_scan_is_of_one_batch_whatever_is_committed_before_it_is_read(
    cluster: InProcessCluster,
) -> None:
    """Every owner has pinned the batch before the first message is handed out."""
    job = cluster.job("large", declare("wide", "string", "string"), parallelism=4)
    await job.run(0, {"wide": {f"k{number}": "x" * 2000 for number in range(4000)}})
    proxy = await cluster.add_proxy()
    async with grpc.aio.insecure_channel(proxy.address) as channel:
        call = scan_call(channel, job="large", state_name="wide")
        messages = [await anext(taken(call))]
        for batch in range(1, 5):
            await job.run(batch, {"wide": {f"k{n}": f"{batch}" for n in range(4000)}})
        messages += [message async for message in taken(call)]
        scanned = [each for message in messages for each in message.keys]
        assert len(scanned) == 4000
        assert {message.info.version for message in messages} == {0}
        assert all(len(each.records.values[0]) > 2000 for each in scanned)
        assert len(messages) > 8


async def test_a_token_goes_on_at_a_newer_batch_where_that_will_do(
    channel: grpc.aio.Channel, job: InProcessJob
) -> None:
    """As of its own batch while that is there; and a page that is of another says so."""
    first = await scan(channel, limit=10)
    token = first[-1].page_token
    again = await scan(channel, limit=10, page_token=token, allow_newer=True)
    assert not any(message.newer for message in again)
    for batch in range(1, 4):
        await job.run(batch, {"last": dict.fromkeys(ALL, float(batch))})
    with pytest.raises(VersionGoneError):
        await _scan_on_and_on(channel, page_token=token)
    rest = await scan(channel, page_token=token, allow_newer=True)
    assert all(message.newer for message in rest)
    assert rest[0].info.version == 3
    assert rest[-1].complete
    assert values_of(rest).keys() | values_of(first).keys() == ALL.keys()
    assert not values_of(rest).keys() & values_of(first).keys()
    assert set(values_of(rest).values()) == {3.0}


async def test_an_owner_that_stands_still_is_named_in_time(
    cluster: InProcessCluster, job: InProcessJob
) -> None:
    """Also where the call itself has no deadline."""
    go_on = threading.Event()
    stalled = cluster.servers[1]
    proxy = await cluster.add_proxy(default_deadline_ms=300)
    try:
        held = asyncio.ensure_future(stalled.engine._background.run(go_on.wait, DEADLINE_S))
        async with grpc.aio.insecure_channel(proxy.address) as channel, asyncio.timeout(DEADLINE_S):
            with pytest.raises(QueryTimeoutError, match=f"{stalled.server_id} at .* allow more"):
                await scan(channel, timeout=None)
            with pytest.raises(QueryTimeoutError, match=stalled.server_id):
                await scan(channel, timeout=None, page_timeout_ms=200)
    finally:
        go_on.set()
    await held


async def test_a_token_of_another_scan_is_refused(channel: grpc.aio.Channel) -> None:
    token = (await scan(channel, limit=3))[-1].page_token
    for fields in (
        {"prefix_json": '"sensor_1"'},
        {"state_name": "seen"},
        {"first_key_group": 3},
        {"allow_incomplete": True},
    ):
        with pytest.raises(InvalidRequestError, match="another scan"):
            await scan(channel, page_token=token, **fields)
    with pytest.raises(InvalidRequestError, match="not intact"):
        await scan(channel, page_token=token[:-1])
    with pytest.raises(InvalidRequestError, match="continues batch 0, and at_version is 7"):
        await scan(channel, page_token=token, at_version=7)


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"prefix_json": '"a"', "start_json": '"b"'}, "not both"),
        ({"start_json": "7"}, "string"),
        ({"prefix_json": "7"}, "string"),
        ({"last_key_group": 128}, "has 128"),
        ({"first_key_group": 5, "last_key_group": 4}, "5 to 4"),
        ({"start_key": b"x" * 70_000}, "65,536 allowed"),
        ({"consistency": 7}, "consistency 7"),
        ({"runs": [query_pb2.KeyGroupRun(first=1, last=2)]}, "requests of a proxy"),
        ({"placement_version": 3}, "no state of its own"),
    ],
)
async def test_what_is_no_range_is_refused(
    channel: grpc.aio.Channel, fields: dict[str, Any], text: str
) -> None:
    with pytest.raises(InvalidRequestError, match=text):
        await scan(channel, **fields)


@pytest.mark.parametrize("runs", [[(5, 3)], [(1, 200)], [(1, 2), (2, 3)]])
async def test_an_owner_refuses_runs_of_key_groups_out_of_order(
    cluster: InProcessCluster, job: InProcessJob, runs: list[tuple[int, int]]
) -> None:
    given = [query_pb2.KeyGroupRun(first=first, last=last) for first, last in runs]
    async with grpc.aio.insecure_channel(cluster.servers[0].addresses.query) as channel:
        with pytest.raises(InvalidRequestError, match="ascending"):
            await scan(channel, runs=given, placement_version=1)


async def test_a_scan_waits_for_the_batch_it_wants(
    channel: grpc.aio.Channel, job: InProcessJob
) -> None:
    waiting = asyncio.create_task(scan(channel, min_version=1))
    await job.run(1, {"last": {"sensor_0": 100.0}})
    assert values_of(await waiting) == ALL | {"sensor_0": 100.0}
    with pytest.raises(RetryLaterError, match="batch 9") as refused:
        await scan(channel, min_version=9, timeout=0.8)
    assert refused.value.reason == Reason.BEHIND


async def test_uncommitted_keys_are_scanned_page_by_page(
    channel: grpc.aio.Channel, job: InProcessJob
) -> None:
    await job.seal(1, {"last": {"sensor_0": 100.0, "new": 1.0}})
    first = await scan(channel, limit=50, consistency=query_pb2.UNCOMMITTED)
    rest = await scan(channel, page_token=first[-1].page_token, consistency=query_pb2.UNCOMMITTED)
    assert values_of(first) | values_of(rest) == ALL | {"sensor_0": 100.0, "new": 1.0}
    assert values_of(await scan(channel)) == ALL


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


async def test_key_groups_of_nobody_refuse_the_scan_in_time(
    channel: grpc.aio.Channel, cluster: InProcessCluster, job: InProcessJob
) -> None:
    await scan(channel)
    await cluster.stop_server(cluster.servers[1])
    with pytest.raises((PlacementError, RetryLaterError)) as refused:
        await scan(channel, timeout=1.0)
    assert refused.value.reason in (Reason.NO_OWNER, Reason.UNAVAILABLE)


async def test_a_scan_that_is_cancelled_leaves_nothing_open(
    cluster: InProcessCluster, job: InProcessJob
) -> None:
    proxy = await cluster.add_proxy()
    scans = [server.engine._scans for server in cluster.servers]
    async with grpc.aio.insecure_channel(proxy.address) as channel:
        wide = cluster.job("large", declare("wide", "string", "string"), parallelism=4)
        await wide.run(0, {"wide": {f"k{number}": "x" * 2000 for number in range(4000)}})
        call = scan_call(channel, job="large", state_name="wide")
        await anext(taken(call))
        assert sum(each.open for each in scans) > 0
        call.cancel()
        async with asyncio.timeout(DEADLINE_S):
            while any(each.open for each in scans):  # noqa: ASYNC110 - of many calls
                await asyncio.sleep(0.01)
