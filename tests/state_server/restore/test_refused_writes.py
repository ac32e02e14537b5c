"""Stores whose disk refused a write: RocksDB accepts no further one, so they are replaced."""

from __future__ import annotations

import asyncio
import logging
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.state_server.restore.stored import after, batch, config, sensors, stored
from tests.waiting import DEADLINE_S, eventually

from queryable_state.client import QueryableStateClient
from queryable_state.server.coordinator.checkpoints.history import InterruptedSnapshotError
from queryable_state.server.testing.cluster import InProcessCluster, declare
from queryable_state.wire.errors import CheckpointError, PlacementError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from tests.state_server.cluster import Cluster
    from tests.state_server.gated_files import Gate

    from queryable_state.server.state_server.server import StateServer
    from queryable_state.server.testing.cluster import InProcessJob


@pytest.fixture
async def rocksdb_cluster(tmp_path: Path) -> AsyncIterator[InProcessCluster]:
    async with InProcessCluster(tmp_path, config=config(backend="rocksdb")) as cluster:
        yield cluster


def databases(server: StateServer) -> list[Path]:
    """The folders of the databases of a server."""
    return sorted(Path(server.settings.directory).rglob("stores/*/db"))


async def flush(server: StateServer) -> list[str]:
    """Flushes every store, as RocksDB does when memory is full; returns the errors."""
    flushes = [asyncio.to_thread(each.store.flush) for each in server.table.subtasks()]
    outcomes = await asyncio.gather(*flushes, return_exceptions=True)
    return [str(outcome) for outcome in outcomes if outcome is not None]


async def refuse_writes(server: StateServer, version: int) -> None:
    """Open tables stay readable, but no file can be created any more.

    Waits until a batch is in the databases, in memory, so that there is something to write.
    """
    await eventually(
        lambda: all(each.store.base_version >= version for each in server.table.subtasks())
    )
    for database in databases(server):
        database.rename(database.with_name("gone"))


def errors(server: StateServer) -> list[int]:
    """What the metric `background_errors` counts of each store."""
    return [each.store.properties()["background-errors"] for each in server.table.subtasks()]


async def completed_checkpoint(job: InProcessJob) -> None:
    """Takes a checkpoint; one during which a store is replaced is interrupted."""
    async with asyncio.timeout(DEADLINE_S):
        while True:
            try:
                await job.checkpoint()
            except InterruptedSnapshotError:
                continue
            return


async def test_a_durable_job_goes_on_after_its_disk_refused_a_write(
    rocksdb_cluster: InProcessCluster,
) -> None:
    [server] = rocksdb_cluster.servers
    job = sensors(rocksdb_cluster)
    await job.run(0, batch(0))
    await job.checkpoint()
    await job.run(1, batch(1))
    await refuse_writes(server, 1)
    with pytest.raises(CheckpointError, match="RocksDB could not flush"):
        await job.checkpoint()
    assert len(await flush(server)) == 2
    assert errors(server) == [1, 1]
    assert stored(rocksdb_cluster) == after(0, 1)
    await job.run(2, batch(2))
    assert stored(rocksdb_cluster) == after(0, 1, 2)
    await job.checkpoint()
    assert errors(server) == [0, 0]
    assert len(databases(server)) == 2


async def test_a_checkpoint_replaces_the_stores_of_an_idle_job(
    rocksdb_cluster: InProcessCluster,
) -> None:
    [server] = rocksdb_cluster.servers
    job = sensors(rocksdb_cluster)
    await job.run(0, batch(0))
    await refuse_writes(server, 0)
    assert len(await flush(server)) == 2
    await completed_checkpoint(job)
    assert stored(rocksdb_cluster) == after(0)
    await job.run(1, batch(1))
    assert stored(rocksdb_cluster) == after(0, 1)


async def test_what_is_acknowledged_while_a_store_is_replaced_is_not_lost(
    cluster: Cluster, gate: Gate, tmp_path: Path, key_of: Callable[..., str]
) -> None:
    server = await cluster.server()
    root = f"gated://{tmp_path / 'state'}"
    job = cluster.job(config=config(backend="rocksdb", state_root=root))
    keys = [key_of(0), key_of(1)]
    for number in range(2):
        await job.run(server, number, dict.fromkeys(keys, "before"))
    first = await job.begin(server, 2, 0)
    other = await job.begin(server, 2, 1)
    await other.prepare({keys[1]: "after"})
    await refuse_writes(server, 0)
    assert len(await flush(server)) == 2
    gate.close_for("changelog/0/op")
    second = asyncio.create_task(job.begin(server, 2, 0))
    await eventually(lambda: gate.waiting > 0)
    await first.prepare({keys[0]: "after"})
    gate.open()
    with pytest.raises(PlacementError, match="while its store was replaced: begin again"):
        await second
    third = await job.begin(server, 2, 0)
    assert third.begun.sealed_before
    await job.commit(server, 2)
    assert job.read(server, *keys) == ["after", "after"]


async def test_a_job_without_a_durable_copy_keeps_its_state(
    rocksdb_cluster: InProcessCluster,
) -> None:
    [server] = rocksdb_cluster.servers
    job = rocksdb_cluster.job("sensors", declare("last", "string", "bigint"))
    for number in range(2):
        await job.run(number, batch(number))
    await refuse_writes(server, 0)
    assert len(await flush(server)) == 2
    for number in range(2, 4):
        await job.run(number, batch(number))
    assert stored(rocksdb_cluster) == after(0, 1, 2, 3)
    assert await flush(server) == []
    assert [each.complete_since_batch for each in server.table.subtasks()] == [0, 0]


async def test_while_no_other_store_can_be_opened_batches_go_on_and_the_log_says_why(
    rocksdb_cluster: InProcessCluster, caplog: pytest.LogCaptureFixture
) -> None:
    [server] = rocksdb_cluster.servers
    job = sensors(rocksdb_cluster)
    await job.run(0, batch(0))
    stores = databases(server)[0].parent.parent
    await refuse_writes(server, 0)
    assert len(await flush(server)) == 2
    kept = stores.rename(stores.with_name("kept"))
    stores.write_text("no folder can be made here")
    with caplog.at_level(logging.ERROR):
        await job.run(1, batch(1))
    assert stored(rocksdb_cluster) == after(0, 1)
    assert "its store accepts no more writes (RocksDB could not flush" in caplog.text
    assert "Make room on the disk of this executor" in caplog.text
    stores.unlink()
    shutil.move(kept, stores)
    await job.run(2, batch(2))
    assert stored(rocksdb_cluster) == after(0, 1, 2)
    await job.checkpoint()


@pytest.mark.slow
async def test_the_status_names_the_server_and_the_error_until_the_stores_are_replaced(
    rocksdb_cluster: InProcessCluster,
) -> None:
    [server] = rocksdb_cluster.servers
    job = rocksdb_cluster.job("sensors", declare("last", "string", "bigint"))
    await job.run(0, batch(0))
    await refuse_writes(server, 0)
    assert len(await flush(server)) == 2
    async with QueryableStateClient(addresses=[server.addresses.proxy]) as client:

        async def findings() -> list[str]:
            return [each.message for each in (await client.describe_job("sensors")).findings]

        async with asyncio.timeout(DEADLINE_S):
            while not (found := await findings()):  # noqa: ASYNC110 - a report of a process
                await asyncio.sleep(0.2)
            [message] = found
            assert f"{server.server_id} cannot write 2 stores" in message
            assert "IO error" in message
            await job.run(1, batch(1))
            while await findings():  # noqa: ASYNC110
                await asyncio.sleep(0.2)
