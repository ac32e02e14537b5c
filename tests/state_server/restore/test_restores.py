"""Stores that are opened with what the job's durable copy has."""

from __future__ import annotations

import random
import shutil
from functools import partial
from typing import TYPE_CHECKING

import pytest

from queryable_state.server.storage.heap.store import HeapStateStore
from queryable_state.server.storage.rocksdb.store import RocksDBStateStore
from queryable_state.server.testing.cluster import InProcessCluster, declare
from queryable_state.wire.errors import CheckpointError

if TYPE_CHECKING:
    from pathlib import Path


from tests.state_server.restore.stored import BACKENDS, KEYS, after, batch, config, sensors, stored


@pytest.mark.parametrize("backend", BACKENDS)
async def test_another_server_goes_on_from_checkpoint_and_changelogs(
    tmp_path: Path, backend: str
) -> None:
    async with InProcessCluster(tmp_path, config=config(backend=backend)) as cluster:
        job = sensors(cluster)
        for number in range(2):
            await job.run(number, batch(number))
        await job.checkpoint()
        for number in range(2, 5):
            await job.run(number, batch(number))
        await cluster.kill_server(cluster.servers[0])
        await cluster.add_server()
        await job.run(5, {})
        assert stored(cluster) == after(0, 1, 2, 3, 4)
        kind = {"heap": HeapStateStore, "rocksdb": RocksDBStateStore}[backend]
        [server] = cluster.servers
        assert all(isinstance(subtask.store, kind) for subtask in server.table.subtasks())


async def test_without_a_checkpoint_all_changelogs_are_applied(tmp_path: Path) -> None:
    async with InProcessCluster(tmp_path, config=config()) as cluster:
        job = sensors(cluster)
        for number in range(3):
            await job.run(number, batch(number))
        await cluster.respawn_server(cluster.servers[0])
        await job.run(3, {})
        assert stored(cluster) == after(0, 1, 2)


async def test_what_was_sealed_is_committed_elsewhere_without_running_again(
    tmp_path: Path,
) -> None:
    """A server is killed after the acknowledgement; a sink that has the batch skips it."""
    async with InProcessCluster(tmp_path, config=config()) as cluster:
        job = sensors(cluster)
        await job.run(0, batch(0))
        await job.seal(1, batch(1))
        await cluster.respawn_server(cluster.servers[0])
        engine = cluster.coordinator.engine
        engine.commit(job.query_id, 1)
        await job.run(2, {})
        assert stored(cluster) == after(0, 1)


@pytest.mark.parametrize("parallelism", [1, 2, 3])
async def test_what_was_sealed_is_staged_at_the_restart_and_a_re_run_replaces_it(
    tmp_path: Path, parallelism: int
) -> None:
    async with InProcessCluster(tmp_path, config=config()) as cluster:
        job = sensors(cluster)
        await job.run(0, batch(0))
        await job.seal(1, batch(1))
        await cluster.respawn_server(cluster.servers[0])
        restarted = job.restart(parallelism=parallelism)
        await restarted.begin(1)
        [server] = cluster.servers
        assert {subtask.store.staged_version for subtask in server.table.subtasks()} == {1}
        assert stored(cluster) == after(0)
        changed = {"last": {KEYS[0]: -1}}
        await restarted.run(1, changed)
        assert stored(cluster) == after(0) | changed["last"]


@pytest.mark.parametrize("parallelism", [1, 2])
async def test_what_was_sealed_is_discarded_where_its_batch_is_planned_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, parallelism: int
) -> None:
    async with InProcessCluster(tmp_path, config=config()) as cluster:
        job = sensors(cluster)
        await job.run(0, batch(0))
        await job.seal(1, batch(1))
        await cluster.respawn_server(cluster.servers[0])
        restarted = job.restart(parallelism=parallelism)
        await restarted.begin(1)
        engine = cluster.coordinator.engine
        monkeypatch.setattr(engine, "plan", partial(engine.plan, offsets=b"planned anew"))
        await restarted.restart().begin(1)
        [server] = cluster.servers
        assert {subtask.store.staged_version for subtask in server.table.subtasks()} == {None}


@pytest.mark.parametrize(("backend", "parallelism"), [("heap", 3), ("rocksdb", 1)])
async def test_a_restart_at_another_parallelism_has_every_key(
    tmp_path: Path, backend: str, parallelism: int
) -> None:
    async with InProcessCluster(tmp_path, config=config(backend=backend), servers=2) as cluster:
        job = sensors(cluster)
        await job.run(0, batch(0))
        await job.run(1, batch(1))
        await job.checkpoint()
        await job.run(2, batch(2))
        restarted = job.restart(parallelism=parallelism)
        await restarted.run(3, batch(3))
        assert stored(cluster) == after(0, 1, 2, 3)
        # And once more, from changelogs of both.
        again = restarted.restart(parallelism=2)
        await again.run(4, {})
        assert stored(cluster) == after(0, 1, 2, 3)


@pytest.mark.parametrize("former", BACKENDS)
async def test_a_job_may_change_its_backend(tmp_path: Path, former: str) -> None:
    latter = BACKENDS[1 - BACKENDS.index(former)]
    async with InProcessCluster(tmp_path, config=config(backend=former)) as cluster:
        job = sensors(cluster)
        await job.run(0, batch(0))
        await job.checkpoint()
        await job.run(1, batch(1))
        cluster.coordinator.coordinator.configure("", config(backend=latter))
        await cluster.respawn_server(cluster.servers[0])
        await job.restart().run(2, {})
        assert stored(cluster) == after(0, 1)


async def test_jobs_of_one_server_have_the_backend_each_asked_for(tmp_path: Path) -> None:
    live = tmp_path / "live"
    async with InProcessCluster(tmp_path) as cluster:
        configure = cluster.coordinator.coordinator.configure
        configure("", config(backend="rocksdb", rocksdb_directories=(str(live),)))
        first = sensors(cluster)
        await first.run(0, batch(0))
        configure("", config(backend="heap"))
        second = cluster.job("others", declare("last", "string", "bigint"), durable=True)
        await second.run(0, batch(0))
        await first.run(1, batch(1))
        table = cluster.servers[0].table
        kinds = {
            job.name: {type(subtask.store) for subtask in held.subtasks.values()}
            for job in (first, second)
            if (held := table.job(job.query_id)) is not None
        }
        assert kinds == {"sensors": {RocksDBStateStore}, "others": {HeapStateStore}}
        assert list(live.rglob("CURRENT"))
    assert not list(live.rglob("CURRENT"))


async def test_a_driver_that_is_started_again_goes_on(tmp_path: Path) -> None:
    async with InProcessCluster(tmp_path, config=config(), servers=2) as cluster:
        engine = cluster.coordinator.engine
        job = sensors(cluster)
        await job.run(0, batch(0))
        await job.checkpoint()
        await job.run(1, batch(1))
        await job.seal(2, batch(2))
    async with InProcessCluster(tmp_path, config=config(), engine=engine) as cluster:
        restarted = sensors(cluster, query_id=job.query_id)
        await restarted.run(2, batch(2))
        assert stored(cluster) == after(0, 1, 2)


@pytest.mark.parametrize("refused_at_first", [False, True])
async def test_stores_of_before_another_driver_went_on_are_not_used(
    tmp_path: Path, *, refused_at_first: bool
) -> None:
    # A heartbeat, which would drop them as well, comes too late.
    async with InProcessCluster(tmp_path, config=config(), lease_ms=30_000) as cluster:
        engine = cluster.coordinator.engine
        job = sensors(cluster)
        await job.run(0, batch(0))
        async with InProcessCluster(tmp_path / "other", config=config(), engine=engine) as other:
            state = declare("last", "string", "bigint")
            elsewhere = other.job("sensors", state, query_id=job.query_id)
            await elsewhere.run(1, batch(1))
            await elsewhere.run(2, batch(2))
        restarted = job.restart()
        if refused_at_first:
            hidden = job.root / "hidden"
            shown = (job.root / "registrations").rename(hidden)
            with pytest.raises(CheckpointError, match="no state of it"):
                await restarted.begin(3)
            hidden.rename(shown.with_name("registrations"))
        await restarted.begin(3)
        assert stored(cluster) == after(0, 1, 2)


@pytest.mark.parametrize("backend", BACKENDS)
async def test_state_may_be_kept_in_the_drivers_memory(tmp_path: Path, backend: str) -> None:
    kept = config(backend=backend, state_root="driver:/sensors")
    async with InProcessCluster(tmp_path, config=kept) as cluster:
        job = sensors(cluster)
        await job.run(0, batch(0))
        await job.checkpoint()
        await job.run(1, batch(1))
        await job.seal(2, batch(2))
        shutil.rmtree(tmp_path / cluster.servers[0].settings.executor_id / "copies")
        await cluster.respawn_server(cluster.servers[0])
        cluster.coordinator.engine.commit(job.query_id, 2)
        await job.run(3, {})
        assert stored(cluster) == after(0, 1, 2)
        assert not job.root.exists()


@pytest.mark.parametrize(("backend", "seed"), [("heap", 0), ("rocksdb", 1)])
async def test_whatever_dies_between_two_batches_no_key_is_lost(
    tmp_path: Path, backend: str, seed: int
) -> None:
    """Kills, checkpoints, re-runs and other parallelisms in a random order, against a dict."""
    chance = random.Random(seed)
    truth: dict[str, int] = {}
    async with InProcessCluster(tmp_path, config=config(backend=backend), servers=2) as cluster:
        job = sensors(cluster)
        for number in range(8):
            changes = {
                key: number * 1000 + i for i, key in enumerate(KEYS) if chance.random() < 0.2
            }
            event = chance.choice(["checkpoint", "kill", "respawn", "rescale", "sealed", "none"])
            if event == "checkpoint" and number:
                await job.checkpoint()
            elif event == "kill":
                await cluster.add_server()
                await cluster.kill_server(chance.choice(cluster.servers[:-1]))
            elif event == "respawn":
                await cluster.respawn_server(chance.choice(cluster.servers))
            elif event == "rescale":
                job = job.restart(parallelism=chance.choice([1, 2, 3]))
            elif event == "sealed":
                await job.seal(number, {"last": dict.fromkeys(KEYS, -number)})
                await cluster.respawn_server(chance.choice(cluster.servers))
                job = job.restart()
            await job.run(number, {"last": changes})
            truth |= changes
            assert stored(cluster) == truth, (number, event)
