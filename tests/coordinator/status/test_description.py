"""A job's description and the list of servers, through a proxy."""

from __future__ import annotations

from typing import TYPE_CHECKING

import grpc.aio
import pytest

from queryable_state.internal.v1 import backend_pb2
from queryable_state.server.testing.cluster import InProcessCluster, declare
from queryable_state.v1 import query_pb2_grpc, registration_pb2, status_pb2
from queryable_state.wire.errors import UnknownJobError
from queryable_state.wire.status import error_from_call

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

TIMEOUT_S = 10.0


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[InProcessCluster]:
    async with InProcessCluster(tmp_path, servers=2) as running:
        yield running


async def described(
    cluster: InProcessCluster, job: str = "", *, with_history: bool = False
) -> status_pb2.JobDescription:
    """Asks a proxy of a state server, without a cache."""
    async with grpc.aio.insecure_channel(cluster.servers[0].addresses.proxy) as channel:
        stub: query_pb2_grpc.QueryableStateAsyncStub = query_pb2_grpc.QueryableStateStub(channel)
        request = status_pb2.DescribeJobRequest(job=job, with_history=with_history)
        try:
            return await stub.DescribeJob(request, timeout=TIMEOUT_S)
        except grpc.aio.AioRpcError as failure:
            raise error_from_call(failure, "proxy") from failure


async def servers(cluster: InProcessCluster) -> list[status_pb2.ServerStatus]:
    async with grpc.aio.insecure_channel(cluster.servers[0].addresses.proxy) as channel:
        stub: query_pb2_grpc.QueryableStateAsyncStub = query_pb2_grpc.QueryableStateStub(channel)
        response = await stub.ListServers(status_pb2.ListServersRequest(), timeout=TIMEOUT_S)
        return list(response.servers)


async def test_a_description_has_operators_with_the_owners_of_their_key_groups(
    cluster: InProcessCluster,
) -> None:
    job = cluster.job("sensors", declare("last", "string", "double"))
    await job.run(0, {"last": {"a": 1.0}})
    found = await described(cluster, "sensors")
    assert (found.info.name, found.info.status) == ("sensors", registration_pb2.RUNNING)
    assert found.last_batch.batch_id == 0
    [operator] = found.operators
    assert (list(operator.states), operator.parallelism) == (["last"], 2)
    covered = [(each.first_key_group, each.last_key_group) for each in operator.owners]
    assert covered == [(0, 63), (64, 127)]
    assert {each.server_id for each in operator.owners} == {
        server.server_id for server in cluster.servers
    }
    assert all(each.open for each in operator.owners)
    assert not found.age_ms


async def test_checkpoints_of_a_durable_job_are_described(cluster: InProcessCluster) -> None:
    job = cluster.job("sensors", declare("last", "string", "double"), durable=True)
    await job.run(0, {"last": {"a": 1.0}})
    await job.checkpoint()
    found = (await described(cluster)).checkpoints
    assert found.durable
    assert found.root
    assert found.last_completed.batch_id == 0
    assert found.last_completed.bytes > 0
    assert [each.outcome for each in found.newest] == [status_pb2.CheckpointSummary.COMPLETED]


async def test_servers_are_listed_with_their_leases_and_key_groups(
    cluster: InProcessCluster,
) -> None:
    job = cluster.job("sensors", declare("last", "string", "double"))
    await job.run(0, {"last": {"a": 1.0}})
    found = await servers(cluster)
    assert [each.server_id for each in found] == [each.server_id for each in cluster.servers]
    assert [each.lease for each in found] == [status_pb2.ServerStatus.HELD] * 2
    assert [each.key_groups for each in found] == [64, 64]
    assert all(each.pid and each.host == "127.0.0.1" for each in found)


async def test_without_a_name_the_only_running_job_is_described(
    cluster: InProcessCluster,
) -> None:
    with pytest.raises(UnknownJobError, match="no job is known"):
        await described(cluster)
    for name in ("sensors", "orders"):
        await cluster.job(name, declare(f"last_{name}", "string", "double")).run(
            0, {f"last_{name}": {"a": 1.0}}
        )
    with pytest.raises(UnknownJobError, match="2 jobs are known"):
        await described(cluster)


async def test_a_failing_attempt_is_told_until_its_batch_commits(
    cluster: InProcessCluster,
) -> None:
    job = cluster.job("sensors", declare("last", "string", "double"))
    await job.run(0, {"last": {"a": 1.0}})
    error = status_pb2.JobError(
        message="process_element failed: ValueError: no",
        record="Row(t=-273.5)",
        operator="counts",
        batch_id=1,
    )
    request = backend_pb2.FailedAttempt(query_id=job.query_id, error=error)
    backend = cluster.backend(cluster.servers[0].addresses.backend)
    for run_id in (bytes(16), job.run_id):
        # An attempt of an earlier run says nothing about this one.
        assert not (await described(cluster)).findings
        request.error.run_id = run_id
        await backend.ReportFailedAttempt(request, **cluster.call_options)
    [finding] = (await described(cluster)).findings
    assert finding.code == "POISON_RECORD"
    assert "Row(t=-273.5)" in finding.message
    await job.run(1, {"last": {"a": 2.0}})
    after = await described(cluster)
    assert not after.findings
    [over] = after.ended_findings
    assert (over.code, over.message) == (finding.code, finding.message)
    assert 0 < over.began_ms <= over.ended_ms
