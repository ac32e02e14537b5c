"""Scans that are refused, time out or are cancelled."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any

import grpc.aio
import pytest
from tests.query.scans.scanning import scan, scan_call, taken
from tests.waiting import DEADLINE_S

from queryable_state.server.testing.cluster import declare
from queryable_state.v1 import query_pb2
from queryable_state.wire.errors import (
    InvalidRequestError,
    PlacementError,
    QueryTimeoutError,
    Reason,
    RetryLaterError,
)

if TYPE_CHECKING:
    from queryable_state.server.testing.cluster import InProcessCluster, InProcessJob


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
