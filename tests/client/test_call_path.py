"""What a look-up enters, in the client and in the servers that answer it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from tests.client.asking import client_of, until_direct
from tests.traces import recorded

if TYPE_CHECKING:
    from tests.traces import CallPath

    from queryable_state.client import QueryableStateClient
    from queryable_state.server.testing.cluster import InProcessCluster, InProcessJob


async def warm_path(client: QueryableStateClient, key: str) -> CallPath:
    """The path of one key, asked for alone, after others like it."""
    for _ in range(3):
        await client.get_kv_state("sensors", "last", key)
        # So that nothing of the test is in flight.
        await asyncio.sleep(0)
    with recorded() as path:
        value = (await client.get_kv_state("sensors", "last", key)).value()
    assert value == float(key.removeprefix("sensor_"))
    return path


def check(path: CallPath, *, files: int, calls: int, changes: int) -> None:
    """Fails with the whole path, to see what a change has added to it."""
    found = (len(path.files), len(path.calls), path.changes)
    assert all(map(int.__le__, found, (files, calls, changes))), str(path)


async def test_a_look_up_goes_down_once_and_up_once(
    cluster: InProcessCluster, job: InProcessJob, client: QueryableStateClient
) -> None:
    await until_direct(client, cluster)
    path = await warm_path(client, "sensor_7")
    check(path, files=17, calls=34, changes=24)
    check(path.below("client/"), files=5, calls=12, changes=8)


async def test_a_proxy_passes_a_look_up_on(cluster: InProcessCluster, job: InProcessJob) -> None:
    """The proxy answers a key of its own process, and relays the frame of another one's."""
    proxy = cluster.servers[0].addresses.proxy
    async with client_of(proxy, direct=False) as client:
        paths = [await warm_path(client, f"sensor_{number}") for number in range(8)]
    relayed = [path for path in paths if "server/query/proxy/owner_streams.py" in path.files]
    assert relayed
    for path in paths:
        if path in relayed:
            check(path, files=28, calls=92, changes=55)
        else:
            check(path, files=20, calls=42, changes=30)
