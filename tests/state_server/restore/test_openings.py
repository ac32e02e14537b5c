"""Opening a store takes its time: who waits, who joins, and what is given up."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from tests.waiting import eventually

from queryable_state.server.coordinator import JobConfig
from queryable_state.server.state_server.stores.job_stores import JobStores
from queryable_state.server.state_server.stores.owned_subtask import OwnedSubtask, SubtaskId
from queryable_state.server.storage.heap.store import HeapStateStore
from queryable_state.wire.errors import PlacementError, Reason
from queryable_state.wire.schema.types import Types

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.state_server.cluster import Clock, Cluster, Job
    from tests.state_server.gated_files import Gate

    from queryable_state.server.state_server.server import StateServer


async def checkpointed(cluster: Cluster, server: StateServer, values: dict[str, str]) -> Job:
    """A job with one batch in a checkpoint whose files wait at the gate when it is closed."""
    config = JobConfig(
        state_root=f"gated://{cluster.root}", inline_bytes=0, checkpoint_interval_ms=0
    )
    job = cluster.job(config=config)
    await job.run(server, 0, values)
    await job.checkpoint()
    return job


async def test_a_restore_outlasts_its_call_and_the_next_call_joins_it(
    cluster: Cluster,
    key_of: Callable[..., str],
    gate: Gate,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO")
    first = await cluster.server("e1")
    job = await checkpointed(cluster, first, {key_of(0): "x"})
    await first.kill()
    server = await cluster.server("e1", directory=str(cluster.directory / "elsewhere"))
    gate.close_for("/chk-1/op/")
    calls = [asyncio.create_task(job.begin(server, 1)) for _ in range(2)]
    await eventually(lambda: gate.waiting == 1)
    for call in calls:
        call.cancel()
    joining = asyncio.create_task(job.begin(server, 1))
    await asyncio.gather(*calls, return_exceptions=True)
    assert gate.waiting == 1
    gate.open()
    task = await joining
    assert await task.fetch(key_of(0)) == {key_of(0): "x"}
    assert sum("opened subtask 0/2" in record.message for record in caplog.records) == 2


async def test_a_restore_during_which_the_lease_ends_opens_nothing(
    cluster: Cluster, key_of: Callable[..., str], gate: Gate, clock: Clock
) -> None:
    first = await cluster.server("e1")
    job = await checkpointed(cluster, first, {key_of(0): "x"})
    await first.kill()
    server = await cluster.server("e1", clock=clock, directory=str(cluster.directory / "elsewhere"))
    gate.close_for("/chk-1/op/")
    beginning = asyncio.create_task(job.begin(server, 1))
    await eventually(lambda: gate.waiting == 1)
    clock.advance(120)
    gate.open()
    with pytest.raises(PlacementError) as refused:
        await beginning
    assert refused.value.reason == Reason.LEASE_EXPIRED
    assert list(server.table.subtasks()) == []
    await server.renew_lease()
    task = await job.begin(server, 1)
    assert await task.fetch(key_of(0)) == {key_of(0): "x"}


async def test_queries_go_on_while_another_job_is_restored(
    cluster: Cluster, key_of: Callable[..., str], gate: Gate
) -> None:
    first = await cluster.server("e1")
    job = await checkpointed(cluster, first, {key_of(0): "x"})
    await first.kill()
    server = await cluster.server("e1", directory=str(cluster.directory / "elsewhere"))
    gate.close_for("/chk-1/op/")
    beginning = asyncio.create_task(job.begin(server, 1))
    await eventually(lambda: gate.waiting == 1)
    other = cluster.job(config=JobConfig(changelog=False))
    await other.run(server, 0, {key_of(0): "other"})
    assert other.read(server, key_of(0)) == ["other"]
    gate.open()
    await beginning


def subtask_at(parallelism: int, placement_version: int) -> OwnedSubtask:
    subtask_id = SubtaskId(b"q" * 16, "op", 0, parallelism, 128)
    return OwnedSubtask(subtask_id, HeapStateStore(), placement_version, 0)


def test_the_newer_placement_wins_in_whatever_order_two_parallelisms_open() -> None:
    former, latter = subtask_at(2, 5), subtask_at(3, 6)
    job = JobStores(b"q" * 16, "server")
    job.add(former)
    assert job.superseded_by(latter) == [former]
    job = JobStores(b"q" * 16, "server")
    job.add(latter)
    with pytest.raises(PlacementError, match="parallelism 3"):
        job.superseded_by(former)


async def test_a_type_that_evolves_back_is_registered_anew(cluster: Cluster) -> None:
    server, job = await cluster.server(), cluster.job()
    short = Types.ROW_NAMED(["a"], [Types.LONG()])
    long = Types.ROW_NAMED(["a", "b"], [Types.LONG(), Types.STRING()])
    for value_type in (short, long, short):
        job = job.restart()
        task = job.attempt(server, 0)
        task.value_type = value_type
        await task.locate()
        await task.begin()
        [state] = task.begun.states
        [registered] = cluster.coordinator.coordinator.states()
        assert state == registered
