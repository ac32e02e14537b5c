"""Stores that are opened while no batch runs: what they answer, and what a batch makes of them."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

import grpc.aio
import pytest
from tests.waiting import DEADLINE_S, eventually

from queryable_state.client import QueryableStateClient
from queryable_state.internal.v1 import backend_pb2
from queryable_state.server.coordinator import JobConfig
from queryable_state.server.testing.cluster import InProcessCluster, declare
from queryable_state.wire.errors import (
    InvalidRequestError,
    PlacementError,
    QueryableStateError,
)
from queryable_state.wire.status import error_from_call

if TYPE_CHECKING:
    from pathlib import Path

    from tests.state_server.gated_files import Gate

    from queryable_state.server.testing.cluster import InProcessJob

KEYS = [f"key {number}" for number in range(60)]


def config(backend: str = "heap") -> JobConfig:
    return JobConfig(backend=backend, checkpoint_interval_ms=0)


def gated(folder: Path) -> JobConfig:
    """A root whose files wait at the gate when it is closed."""
    return JobConfig(state_root=f"gated://{folder / 'state'}", checkpoint_interval_ms=0)


async def until_written(folder: Path) -> None:
    """Waits for the manifest of batch 0, which comes a bit after its commit."""
    await eventually(lambda: any(folder.glob("state/changelog/0/_manifest-*")))


def sensors(cluster: InProcessCluster, **fields: Any) -> InProcessJob:
    return cluster.job("sensors", declare("last", "string", "bigint"), durable=True, **fields)


def batch(number: int) -> dict[str, dict[str, int]]:
    """Each key's value by a rule; not every key is in every batch."""
    return {"last": {key: number * 1000 + i for i, key in enumerate(KEYS) if i % (number + 1) == 0}}


def after(*numbers: int) -> list[int]:
    """What every key has once these batches are committed."""
    values: dict[str, int] = {}
    for number in numbers:
        values.update(batch(number)["last"])
    return [values[key] for key in KEYS]


async def answers(cluster: InProcessCluster, job: InProcessJob) -> list[int | None]:
    """What a client is told of every key, by the last server's proxy."""
    host, _, port = cluster.servers[-1].addresses.proxy.rpartition(":")
    async with QueryableStateClient(host, int(port)) as client:
        states = await client.get_kv_states(job.job_id, "last", KEYS)
    return [None if state is None else state.value() for state in states]


async def until_open(cluster: InProcessCluster, job: InProcessJob, subtasks: int) -> None:
    """Waits until the coordinator knows an owner for each key group of the state."""
    coordinator = cluster.coordinator.coordinator
    alive = {server.addresses.query for server in cluster.servers}

    def is_open() -> bool:
        if not coordinator.states(job.job_id):
            return False
        owners = coordinator.location(job.job_id, "last").owners
        return len(owners) == subtasks and all(owner.address in alive for owner in owners)

    async with asyncio.timeout(DEADLINE_S):
        while not is_open():  # noqa: ASYNC110 - state of the coordinator's threads
            await asyncio.sleep(0.005)


async def recovered(cluster: InProcessCluster, job: InProcessJob) -> None:
    """Waits until the coordinator says that what the job goes on from is open."""
    coordinator = cluster.coordinator.coordinator
    assert await asyncio.to_thread(coordinator.await_recovered, job.query_id, DEADLINE_S)


@pytest.mark.parametrize(("backend", "parallelism"), [("heap", 1), ("rocksdb", 2), ("heap", 3)])
async def test_a_restarted_job_answers_before_a_batch_and_goes_on_behind(
    tmp_path: Path, backend: str, parallelism: int
) -> None:
    async with InProcessCluster(tmp_path, config=config(backend), servers=2) as cluster:
        engine = cluster.coordinator.engine
        job = sensors(cluster)
        await job.run(0, batch(0))
        await job.checkpoint()
        await job.run(1, batch(1))
    async with InProcessCluster(
        tmp_path, config=config(backend), servers=2, engine=engine
    ) as cluster:
        job = sensors(cluster, query_id=job.query_id, parallelism=parallelism)
        assert job.recover()
        await until_open(cluster, job, parallelism)
        assert await answers(cluster, job) == after(0, 1)
        await job.run(2, batch(2))
        assert await answers(cluster, job) == after(0, 1, 2)


async def test_another_parallelism_in_the_same_driver_is_opened_without_a_batch(
    tmp_path: Path,
) -> None:
    async with InProcessCluster(tmp_path, config=config(), servers=2) as cluster:
        job = sensors(cluster)
        await job.run(0, batch(0))
        job = job.restart(parallelism=3)
        assert job.recover()
        await until_open(cluster, job, 3)
        assert await answers(cluster, job) == after(0)
        await job.run(1, batch(1))
        assert await answers(cluster, job) == after(0, 1)


async def test_a_lease_that_takes_the_former_parallelism_leaves_what_is_being_opened(
    tmp_path: Path, gate: Gate, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "queryable_state")
    async with InProcessCluster(tmp_path, config=gated(tmp_path)) as cluster:
        [server] = cluster.servers
        job = sensors(cluster)
        await job.run(0, batch(0))
        await until_written(tmp_path)
        # Its changelogs are read by the server alone once the manifest says what they are.
        gate.close_for("/changelog/0/operator/")
        job = job.restart(parallelism=1)
        assert job.recover()
        await eventually(lambda: gate.waiting > 0)
        await server.renew_lease()
        assert not list(server.table.subtasks())
        gate.open()
        await recovered(cluster, job)
        assert await answers(cluster, job) == after(0)
    assert "overtaken" not in caplog.text


async def test_what_a_killed_server_held_is_answered_by_another_while_no_batch_runs(
    tmp_path: Path,
) -> None:
    async with InProcessCluster(tmp_path, config=config(), servers=2) as cluster:
        job = sensors(cluster)
        assert not job.recover(), "nothing is stored yet"
        await job.run(0, batch(0))
        await cluster.kill_server(cluster.servers[0])
        await until_open(cluster, job, 2)
        assert await answers(cluster, job) == after(0)


async def test_an_idle_job_can_be_checkpointed_and_is_whole_after_that(tmp_path: Path) -> None:
    async with InProcessCluster(tmp_path, config=config()) as cluster:
        engine = cluster.coordinator.engine
        job = sensors(cluster)
        await job.run(0, batch(0))
    async with InProcessCluster(tmp_path, config=config(), engine=engine) as cluster:
        job = sensors(cluster, query_id=job.query_id)
        job.recover()
        assert (await job.checkpoint()).version == 0
        await job.run(1, batch(1))
        assert await answers(cluster, job) == after(0, 1)


async def test_a_checkpoint_that_is_asked_for_while_a_run_begins_is_taken_by_that_run(
    tmp_path: Path, gate: Gate
) -> None:
    async with InProcessCluster(tmp_path, config=gated(tmp_path)) as cluster:
        job = sensors(cluster)
        await job.run(0, batch(0))
        await until_written(tmp_path)
        # The new run has its epoch by then, and not yet what is stored.
        gate.close_for("/_manifest-")
        job = job.restart()
        job.recover()
        await eventually(lambda: gate.waiting > 0)
        taking = asyncio.create_task(job.checkpoint())
        reports = cluster.coordinator.coordinator.checkpoints
        await eventually(lambda: bool(reports(job.query_id)))
        gate.open()
        assert (await taking).run_epoch == 2


async def test_what_was_sealed_and_is_committed_without_a_run_is_in(tmp_path: Path) -> None:
    """By a sink that has the batch already, so that none of its tasks runs."""
    async with InProcessCluster(tmp_path, config=config()) as cluster:
        engine = cluster.coordinator.engine
        job = sensors(cluster)
        await job.run(0, batch(0))
        await job.seal(1, batch(1))
    async with InProcessCluster(tmp_path, config=config(), engine=engine) as cluster:
        job = sensors(cluster, query_id=job.query_id)
        job.recover()
        await until_open(cluster, job, 2)
        assert await answers(cluster, job) == after(0)
        await job.commit(1)
        assert await answers(cluster, job) == after(0, 1)


async def refusal(
    cluster: InProcessCluster, request: backend_pb2.OpenSubtasksRequest
) -> QueryableStateError:
    """What a server says to an opening it must not do."""
    [server] = cluster.servers
    backend = cluster.backend(server.addresses.backend)
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await backend.OpenSubtasks(request, **cluster.call_options)
    return error_from_call(refused.value, "server")


async def test_an_opening_that_is_late_or_means_no_batch_changes_nothing(tmp_path: Path) -> None:
    async with InProcessCluster(tmp_path, config=config()) as cluster:
        job = sensors(cluster)
        for number in range(3):
            await job.run(number, batch(number))
        subtask = backend_pb2.Subtask(
            query_id=job.query_id,
            operator_uid="another",
            index=0,
            parallelism=1,
            max_parallelism=128,
        )
        request = backend_pb2.OpenSubtasksRequest(
            query_id=job.query_id, batch_id=1, subtasks=[subtask]
        )
        assert isinstance(await refusal(cluster, request), PlacementError)
        request.batch_id = 0
        assert isinstance(await refusal(cluster, request), InvalidRequestError)
        assert await answers(cluster, job) == after(0, 1, 2)
