"""What a state server refuses, and that it goes on serving."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import grpc.aio
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc
from tests.query.forwarding import forwarded
from tests.waiting import eventually

from queryable_state.internal.v1 import backend_pb2, backend_pb2_grpc, coordinator_pb2
from queryable_state.server.config.limits import Limits
from queryable_state.server.coordinator_client import CoordinatorClient
from queryable_state.v1 import query_pb2, query_pb2_grpc
from queryable_state.wire.addresses import host_and_port
from queryable_state.wire.changes import BlockSums, ChangeBlockBuilder
from queryable_state.wire.errors import (
    AuthenticationError,
    InvalidRequestError,
    LimitExceededError,
    PlacementError,
    Reason,
    RetryLaterError,
    SupersededError,
)
from queryable_state.wire.keys.key_groups import KeyGroups
from queryable_state.wire.schema.types import Types

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.state_server.cluster import Clock, Cluster


def open_files() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


async def test_a_call_without_the_jobs_secret_is_refused(
    cluster: Cluster, key_of: Callable[..., str]
) -> None:
    server, job = await cluster.server(), cluster.job()
    task = await job.begin(server, 0)
    request = backend_pb2.DropQueryRequest(query_id=job.query_id)
    address = server.addresses.backend
    stranger = cluster.stub_at(address, secret="another")
    with pytest.raises(AuthenticationError, match="DropQuery needs the job's secret"):
        await task.call(stranger.DropQuery, request)
    with pytest.raises(AuthenticationError):
        await task.call(stranger.Prepare, iter(task.frames({key_of(0): "x"})))
    unsigned: Any = backend_pb2_grpc.StateBackendStub(cluster.channel(address))
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await unsigned.DropQuery(request)
    assert refused.value.code() == grpc.StatusCode.UNAUTHENTICATED
    assert server.table.job(job.query_id) is not None


async def test_a_value_over_the_limit_is_refused_by_state_key_and_size(
    cluster: Cluster, key_of: Callable[..., str]
) -> None:
    server, job = await cluster.server(limits=Limits(value_bytes=100)), cluster.job()
    task = await job.begin(server, 0)
    with pytest.raises(LimitExceededError, match=rf"'last', key '{key_of(0)}': .* 102 bytes.*100"):
        await task.prepare({key_of(0): "x" * 100})
    await task.prepare({key_of(0): "x" * 98})


async def test_a_key_over_the_limit_is_refused(
    cluster: Cluster, key_of: Callable[..., str]
) -> None:
    server, job = await cluster.server(limits=Limits(key_bytes=10)), cluster.job()
    task = await job.begin(server, 0)
    keys = KeyGroups(Types.STRING(), 128)
    long = next(key for n in range(1000) if keys.of(key := f"{'x' * 60}{n}") < 64)
    with pytest.raises(LimitExceededError, match="key_bytes"):
        await task.prepare({long: "x"})


async def test_changes_of_other_key_groups_or_states_are_refused(
    cluster: Cluster, key_of: Callable[..., str]
) -> None:
    server, job = await cluster.server(), cluster.job()
    task = await job.begin(server, 0)
    with pytest.raises(InvalidRequestError, match="key groups 0 to 63"):
        await task.prepare({key_of(1): "x"})
    builder = ChangeBlockBuilder(task.state_id + 1, sums := BlockSums())
    builder.put(b"\x00\x00key", b"\x00\x01x")
    [block] = builder.finish()
    with pytest.raises(InvalidRequestError, match="has not declared"):
        await task.send(
            [
                task.open_frame(),
                backend_pb2.PrepareRequest(block=block),
                backend_pb2.PrepareRequest(seal=sums.seal(task.begun.token)),
            ]
        )
    builder = ChangeBlockBuilder(task.state_id, sums := BlockSums())
    builder.put(b"\x00\x00key", b"")
    [block] = builder.finish()
    with pytest.raises(InvalidRequestError, match="lacks even its format byte"):
        await task.send([task.open_frame(), backend_pb2.PrepareRequest(block=block)])


async def test_a_full_server_refuses_instead_of_dying_and_takes_more_once_it_has_room(
    cluster: Cluster,
    key_of: Callable[..., str],
) -> None:
    limits = Limits(max_staged_bytes=1500)
    server, job = await cluster.server(limits=limits), cluster.job()
    first, second = await job.begin(server, 0, 0), await job.begin(server, 0, 1)
    await first.prepare({key_of(0): "x" * 1000})
    with pytest.raises(RetryLaterError, match="max_staged_bytes") as refused:
        await second.prepare({key_of(1): "x" * 1000})
    assert refused.value.reason == Reason.OVERLOADED
    assert refused.value.retry_after_ms > 0
    with pytest.raises(LimitExceededError, match="max_staged_bytes"):
        await second.prepare({key_of(1): "x" * 2000})
    await job.commit(server, 0)
    await server.renew_lease()
    await server.renew_lease()
    await eventually(lambda: all(s.store.overlay_bytes == 0 for s in server.table.subtasks()))
    await (await job.begin(server, 1, 1)).prepare({key_of(1): "x" * 1000})


async def test_without_a_lease_nothing_is_answered_or_acknowledged(
    cluster: Cluster, clock: Clock, key_of: Callable[..., str]
) -> None:
    server, job = await cluster.server(clock=clock), cluster.job()
    await job.run(server, 0, {key_of(0): "x"})
    task = await job.begin(server, 1)
    clock.advance(61)
    assert job.ask(server, key_of(0)).error.reason == Reason.LEASE_EXPIRED
    for call in (task.prepare({key_of(0): "y"}), task.fetch(key_of(0)), task.begin()):
        with pytest.raises(PlacementError) as refused:
            await call
        assert refused.value.reason == Reason.LEASE_EXPIRED
    await server.renew_lease()
    assert job.read(server, key_of(0)) == ["x"]
    await task.prepare({key_of(0): "y"})


async def test_a_lease_that_ends_while_an_attempt_prepares_keeps_it_from_being_acknowledged(
    cluster: Cluster, clock: Clock, key_of: Callable[..., str]
) -> None:
    server, job = await cluster.server(clock=clock), cluster.job()
    task = await job.begin(server, 0)
    opening, block, seal = task.frames({key_of(0): "x"})
    call = task.stub.Prepare()
    await call.write(opening)
    await call.write(block)
    clock.advance(61)
    await call.write(seal)
    await call.done_writing()
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await call
    assert refused.value.code() == grpc.StatusCode.FAILED_PRECONDITION
    assert server.table.staged_bytes() == 0


async def test_a_server_the_coordinator_does_not_know_registers_anew_and_drops_what_it_held(
    cluster: Cluster, key_of: Callable[..., str]
) -> None:
    server, job = await cluster.server(backend="rocksdb"), cluster.job()
    await job.run(server, 0, {key_of(0): "x"})
    async with CoordinatorClient(cluster.coordinator.address, cluster.coordinator.secret) as link:
        await link.deregister_server(
            coordinator_pb2.DeregisterServerRequest(server_id=server.server_id)
        )
    await server.renew_lease()
    assert server.lease.holds()
    assert list(server.table.subtasks()) == []
    answer = job.ask(server, key_of(0))
    assert answer.error.reason == Reason.NOT_OWNER
    # The range was lost: the coordinator says since when it is complete.
    begun = (await job.begin(server, 1)).begun
    assert begun.complete_since_batch == 1
    await job.run(server, 1, {key_of(0, 1): "y"})
    assert job.ask(server, key_of(0)).failed[0].error.reason == Reason.STATE_LOST
    assert job.read(server, key_of(0, 1), allow_incomplete=True) == ["y"]


async def test_a_newer_server_of_the_executor_ends_the_older_one(cluster: Cluster) -> None:
    older = await cluster.server("e1")
    newer = await cluster.server("e1", directory=str(cluster.settings("other").directory))
    with pytest.raises(SupersededError, match="replaced"):
        await older.renew_lease()
    await asyncio.wait_for(older.wait_stopped(), 20)
    assert newer.lease.holds()


async def test_a_dropped_query_leaves_nothing_behind(
    cluster: Cluster, key_of: Callable[..., str], tmp_path: Path
) -> None:
    server, job = await cluster.server(backend="rocksdb"), cluster.job()
    await job.run(server, 0, {key_of(0): "x"})
    task = await job.begin(server, 1)
    await task.prepare({key_of(0): "staged"})
    assert server.table.staged_bytes() > 0
    cluster.coordinator.engine.end(job.query_id)
    await task.call(task.stub.DropQuery, backend_pb2.DropQueryRequest(query_id=job.query_id))
    assert server.table.staged_bytes() == 0
    assert server.table.job(job.query_id) is None
    assert list((tmp_path / "e1" / "stores").iterdir()) == []
    await task.call(task.stub.DropQuery, backend_pb2.DropQueryRequest(query_id=job.query_id))


async def test_abandoned_attempts_leave_nothing_behind(
    cluster: Cluster,
    key_of: Callable[..., str],
) -> None:
    """Tasks that are killed in the middle of a prepare, again and again."""
    server, job = await cluster.server(backend="rocksdb"), cluster.job()
    await job.run(server, 0, {key_of(0): "x"})
    counts: list[tuple[int, int]] = []
    for _ in range(4):
        for _ in range(10):
            task = await job.begin(server, 1)
            await task.fetch(key_of(0))
            opening, block, _ = task.frames({key_of(0): "y" * 10_000})
            call = task.stub.Prepare()
            await call.write(opening)
            await call.write(block)
            call.cancel()
            await asyncio.wait([asyncio.ensure_future(call.code())])
        await eventually(lambda: server.staged_bytes == 0)
        counts.append((open_files(), len(asyncio.all_tasks())))
    assert max(files for files, _ in counts) <= counts[0][0] + 2
    assert max(tasks for _, tasks in counts) <= counts[0][1] + 2
    assert job.read(server, key_of(0), consistency=query_pb2.UNCOMMITTED) == ["x"]
    await job.run(server, 1, {})
    assert all(not subtask.begun for subtask in server.table.subtasks())


async def test_the_coordinator_can_ask_a_server_to_leave(cluster: Cluster, tmp_path: Path) -> None:
    server, job = await cluster.server(backend="rocksdb"), cluster.job()
    task = await job.begin(server, 0)
    await task.call(task.stub.Shutdown, backend_pb2.ShutdownRequest())
    await asyncio.wait_for(server.wait_stopped(), 20)
    assert cluster.coordinator.coordinator.proxy_addresses() == []
    assert not (tmp_path / "e1" / "stores").exists()


async def test_a_server_that_reaches_no_coordinator_for_long_ends_by_itself(
    cluster: Cluster, clock: Clock
) -> None:
    _, port = host_and_port(cluster.coordinator.address)
    # The coordinator vanishes without a word, as with its host: one that is closed asks its
    # servers to shut down.
    async with forwarded("127.0.0.1", 0, port) as address:
        server = await cluster.server(
            clock=clock, orphan_timeout_s=100, coordinator_address=address
        )
        # As long a pause of its own is none of the coordinator. It comes before the first renewal
        # that fails, which may be one that the server begins by itself.
        clock.advance(1_000)
    with pytest.raises(RetryLaterError, match="no coordinator answers"):
        await server.renew_lease()
    clock.advance(99)
    with pytest.raises(RetryLaterError):
        await server.renew_lease()
    clock.advance(2)
    with pytest.raises(RetryLaterError):
        await server.renew_lease()
    await asyncio.wait_for(server.wait_stopped(), 20)


async def test_both_public_ports_have_health_reflection_and_the_service(
    cluster: Cluster, key_of: Callable[..., str]
) -> None:
    server, job = await cluster.server(), cluster.job()
    await job.run(server, 0, {key_of(0): "x"})
    for address in (server.addresses.query, server.addresses.proxy):
        channel = cluster.channel(address)
        health: Any = health_pb2_grpc.HealthStub(channel)
        reflection: Any = reflection_pb2_grpc.ServerReflectionStub(cast("Any", channel))
        check = await health.Check(
            health_pb2.HealthCheckRequest(service="queryable_state.v1.QueryableState")
        )
        assert check.status == health_pb2.HealthCheckResponse.SERVING
        listed = reflection.ServerReflectionInfo(
            iter([reflection_pb2.ServerReflectionRequest(list_services="")])
        )
        async for response in listed:
            names = {service.name for service in response.list_services_response.service}
            assert "queryable_state.v1.QueryableState" in names
    answer = await query_pb2_grpc.QueryableStateStub(
        cluster.channel(server.addresses.query)
    ).GetKvState(
        query_pb2.GetKvStateRequest(state_name="last", key_json=f'"{key_of(0)}"'), timeout=20
    )
    assert answer.value_json == '"x"'
