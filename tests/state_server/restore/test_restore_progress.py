"""Progress of restores, as the status of the job shows it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import grpc.aio
from tests.state_server.restore.test_openings import checkpointed
from tests.waiting import DEADLINE_S

from queryable_state.v1 import query_pb2_grpc, status_pb2

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.state_server.cluster import Cluster
    from tests.state_server.gated_files import Gate


async def restores(proxy: str) -> list[status_pb2.RestoreProgress]:
    async with grpc.aio.insecure_channel(proxy) as channel:
        stub: query_pb2_grpc.QueryableStateAsyncStub = query_pb2_grpc.QueryableStateStub(channel)
        answer = await stub.DescribeJob(status_pb2.DescribeJobRequest(), timeout=DEADLINE_S)
        return list(answer.restores)


async def test_a_restore_that_waits_for_its_files_shows_how_many_bytes_it_has(
    cluster: Cluster, key_of: Callable[..., str], gate: Gate
) -> None:
    first = await cluster.server("e1")
    job = await checkpointed(cluster, first, {key_of(0): "x"})
    await first.kill()
    server = await cluster.server("e1", directory=str(cluster.directory / "elsewhere"))
    gate.close_for("/chk-1/op/")
    begun = asyncio.create_task(job.begin(server, 1))
    deadline_s = asyncio.get_running_loop().time() + DEADLINE_S
    found: list[status_pb2.RestoreProgress] = []
    while not found:
        assert asyncio.get_running_loop().time() < deadline_s
        found = [each for each in await restores(server.addresses.proxy) if each.bytes]
    [restore] = found
    assert (restore.operator_uid, restore.server_id) == ("op", server.server_id)
    assert restore.bytes_done == 0
    assert restore.started_at_ms
    gate.open()
    await begun
    assert not await restores(server.addresses.proxy)
