"""Stores whose disk refused a write: RocksDB accepts no further one, so they are replaced."""

from __future__ import annotations

import asyncio
import logging
import shutil
from typing import TYPE_CHECKING

import pytest
from tests.state_server.cluster import until
from tests.state_server.restore.stored import after, batch, config, sensors, stored

from queryable_state.server.testing.cluster import InProcessCluster, declare
from queryable_state.wire.errors import CheckpointError

if TYPE_CHECKING:
    from pathlib import Path


def databases(cluster: InProcessCluster, directory: Path) -> list[Path]:
    """The folders of the databases of the only server."""
    [server] = cluster.servers
    return sorted((directory / server.settings.executor_id).rglob("stores/*/db"))


def refuse_writes(cluster: InProcessCluster, directory: Path) -> None:
    """Open tables stay readable, but no file can be created any more."""
    for database in databases(cluster, directory):
        database.rename(database.with_name("gone"))


async def until_compacted(cluster: InProcessCluster, version: int) -> None:
    """Waits until the databases have the records of a batch, in memory at first."""
    [server] = cluster.servers
    await until(lambda: all(each.store.base_version >= version for each in server.table.subtasks()))


async def flush(cluster: InProcessCluster) -> list[str]:
    """Flushes every store, as RocksDB does when memory is full; returns the errors."""
    [server] = cluster.servers
    flushes = [asyncio.to_thread(each.store.flush) for each in server.table.subtasks()]
    outcomes = await asyncio.gather(*flushes, return_exceptions=True)
    return [str(outcome) for outcome in outcomes if outcome is not None]


def errors(cluster: InProcessCluster) -> list[int]:
    """What the metric `background_errors` counts of each store."""
    [server] = cluster.servers
    return [each.store.properties()["background-errors"] for each in server.table.subtasks()]


async def test_a_durable_job_goes_on_after_its_disk_refused_a_write(tmp_path: Path) -> None:
    async with InProcessCluster(tmp_path, config=config(backend="rocksdb")) as cluster:
        job = sensors(cluster)
        await job.run(0, batch(0))
        await job.checkpoint()
        await job.run(1, batch(1))
        await until_compacted(cluster, 1)
        refuse_writes(cluster, tmp_path)
        with pytest.raises(CheckpointError, match="RocksDB could not flush"):
            await job.checkpoint()
        assert len(await flush(cluster)) == 2
        assert errors(cluster) == [1, 1]
        assert stored(cluster) == after(0, 1)
        await job.run(2, batch(2))
        assert stored(cluster) == after(0, 1, 2)
        await job.checkpoint()
        assert errors(cluster) == [0, 0]
        assert len(databases(cluster, tmp_path)) == 2


async def test_a_job_without_a_durable_copy_keeps_its_state_when_its_disk_refused_a_write(
    tmp_path: Path,
) -> None:
    async with InProcessCluster(tmp_path, config=config(backend="rocksdb")) as cluster:
        job = cluster.job("sensors", declare("last", "string", "bigint"))
        for number in range(2):
            await job.run(number, batch(number))
        await until_compacted(cluster, 0)
        refuse_writes(cluster, tmp_path)
        assert len(await flush(cluster)) == 2
        for number in range(2, 4):
            await job.run(number, batch(number))
        assert stored(cluster) == after(0, 1, 2, 3)
        assert await flush(cluster) == []
        [server] = cluster.servers
        assert [each.complete_since_batch for each in server.table.subtasks()] == [0, 0]


async def test_while_no_other_store_can_be_opened_batches_go_on_and_the_log_says_why(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with InProcessCluster(tmp_path, config=config(backend="rocksdb")) as cluster:
        job = sensors(cluster)
        await job.run(0, batch(0))
        await until_compacted(cluster, 0)
        stores = databases(cluster, tmp_path)[0].parent.parent
        refuse_writes(cluster, tmp_path)
        assert len(await flush(cluster)) == 2
        kept = stores.rename(stores.with_name("kept"))
        stores.write_text("no folder can be made here")
        with caplog.at_level(logging.ERROR):
            await job.run(1, batch(1))
        assert stored(cluster) == after(0, 1)
        assert "its store accepts no more writes (RocksDB could not flush" in caplog.text
        assert "Make room on the disk of this executor" in caplog.text
        stores.unlink()
        shutil.move(kept, stores)
        await job.run(2, batch(2))
        assert stored(cluster) == after(0, 1, 2)
        await job.checkpoint()
