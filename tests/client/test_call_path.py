"""What a look-up enters, in the client and in the server that answers it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from tests.client.asking import until_direct
from tests.traces import recorded

if TYPE_CHECKING:
    from queryable_state.client import QueryableStateClient
    from queryable_state.server.testing.cluster import InProcessCluster, InProcessJob


async def test_a_look_up_goes_down_once_and_up_once(
    cluster: InProcessCluster, job: InProcessJob, client: QueryableStateClient
) -> None:
    """One key, warm, from its owner. The path is printed, to see what a change adds to it."""
    await until_direct(client, cluster)
    for _ in range(3):
        await client.get_kv_state("sensors", "last", "sensor_7")
        # So that nothing of the test is in flight.
        await asyncio.sleep(0)
    with recorded() as path:
        value = (await client.get_kv_state("sensors", "last", "sensor_7")).value()
    assert value == 7.0
    assert len(path.files) <= 32, str(path)
    assert len(path.calls) <= 80, str(path)
    assert path.changes <= 54, str(path)
    own = path.below("client/")
    assert len(own.files) <= 5, str(own)
    assert len(own.calls) <= 12, str(own)
