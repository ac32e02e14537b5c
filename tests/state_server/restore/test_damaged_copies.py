"""Restores from copies that are damaged or missing."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from queryable_state.server.testing.cluster import InProcessCluster, corrupt
from queryable_state.wire.errors import CheckpointError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from queryable_state.server.testing.cluster import InProcessJob

from tests.state_server.restore.stored import BACKENDS, after, batch, config, sensors, stored


def chk(job: InProcessJob, checkpoint_id: int) -> list[Path]:
    """The files of one checkpoint alone, largest first: small ones may be equal to others."""
    folder = job.root / f"chk-{checkpoint_id}"
    found = [p for p in folder.rglob("*") if p.is_file() and not p.name.startswith("_")]
    return sorted(found, key=lambda path: path.stat().st_size, reverse=True)


def local_copies(directory: Path) -> list[Path]:
    """What the executors of a cluster keep."""
    return list(directory.glob("executor-*/copies/*/*"))


async def lose_disk(cluster: InProcessCluster) -> str:
    """Kills the only server and empties its disk; answers the executor, which starts no other."""
    [server] = cluster.servers
    await cluster.kill_server(server)
    shutil.rmtree(server.settings.directory)
    return server.settings.executor_id


def logged(caplog: pytest.LogCaptureFixture, text: str) -> list[str]:
    return [record.message for record in caplog.records if text in record.message]


@pytest.mark.parametrize("backend", BACKENDS)
async def test_a_damaged_checkpoint_is_named_and_the_one_before_is_used(
    tmp_path: Path, backend: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with InProcessCluster(tmp_path, config=config(backend=backend)) as cluster:
        job = sensors(cluster)
        await job.run(0, batch(0))
        await job.checkpoint()
        await job.run(1, batch(1))
        await job.checkpoint()
        await job.run(2, batch(2))
        executor_id = await lose_disk(cluster)
        damaged = chk(job, 2)[0]
        corrupt(damaged)
        await cluster.add_server(executor_id=executor_id)
        await job.run(3, {})
        assert stored(cluster) == after(0, 1, 2)
        [message] = logged(caplog, "falls back to")
        assert str(damaged) in message
        assert "checksum" in message
        assert f"{job.root}/chk-1" in message


async def test_a_missing_file_is_named(tmp_path: Path) -> None:
    async with InProcessCluster(tmp_path, config=config()) as cluster:
        job = sensors(cluster)
        await job.run(0, batch(0))
        await job.checkpoint()
        await job.run(1, batch(1))
        executor_id = await lose_disk(cluster)
        missing = chk(job, 1)
        for file in missing:
            file.unlink()
        await cluster.add_server(executor_id=executor_id)
        with pytest.raises(CheckpointError, match="no such file") as refused:
            await job.run(2, {})
        # Each subtask names its own; which one is heard of first is anybody's guess.
        assert any(str(file) in refused.value.message for file in missing)


async def test_without_anything_intact_the_task_is_told_which_files_are_broken(
    tmp_path: Path,
) -> None:
    async with InProcessCluster(tmp_path, config=config()) as cluster:
        job = sensors(cluster)
        for number in range(3):
            await job.run(number, batch(number))
            await job.checkpoint()
        executor_id = await lose_disk(cluster)
        damaged = [*chk(job, 2), *chk(job, 3)]
        for file in damaged:
            corrupt(file)
        await cluster.add_server(executor_id=executor_id)
        with pytest.raises(CheckpointError, match="cannot be restored") as refused:
            await job.run(3, {})
        assert sum(str(file) in refused.value.message for file in damaged) == 2
        assert "savepoint" in refused.value.message
        assert list(cluster.servers[0].table.subtasks()) == []


async def test_a_damaged_changelog_is_named(tmp_path: Path) -> None:
    async with InProcessCluster(tmp_path, config=config()) as cluster:
        job = sensors(cluster)
        await job.run(0, batch(0))
        await job.run(1, batch(1))
        executor_id = await lose_disk(cluster)
        [damaged] = (job.root / "changelog" / "0" / "operator" / "0-63").iterdir()
        corrupt(damaged)
        await cluster.add_server(executor_id=executor_id)
        with pytest.raises(CheckpointError, match="checksum") as refused:
            await job.run(2, {})
        assert str(damaged) in refused.value.message


def exchange(one: Path, other: Path) -> None:
    aside = one.with_name("aside")
    for source, target in ((one, aside), (other, one), (aside, other)):
        source.rename(target)


def copy_over(one: Path, other: Path) -> None:
    one.unlink()
    shutil.copy(other, one)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("kind", ["changelog", "checkpoint"])
@pytest.mark.parametrize("misplace", [exchange, copy_over])
async def test_an_intact_file_of_other_key_groups_is_refused(
    tmp_path: Path, backend: str, kind: str, misplace: Callable[[Path, Path], None]
) -> None:
    """Manifests and checkpoints have the checksums of the files of each range of key groups."""
    async with InProcessCluster(tmp_path, config=config(backend=backend)) as cluster:
        job = sensors(cluster)
        await job.run(0, batch(0))
        if kind == "checkpoint":
            await job.checkpoint()
            one, other, *_ = chk(job, 1) + sorted((job.root / "shared").rglob("*.sst"))
        else:
            changelogs = job.root / "changelog" / "0" / "operator"
            one, other = (next((changelogs / each).iterdir()) for each in ("0-63", "64-127"))
        await job.run(1, batch(1))
        executor_id = await lose_disk(cluster)
        misplace(one, other)
        await cluster.add_server(executor_id=executor_id)
        with pytest.raises(CheckpointError, match=r"checksum|bytes") as refused:
            await job.run(2, {})
        assert any(str(file) in refused.value.message for file in (one, other))


@pytest.mark.parametrize("backend", BACKENDS)
async def test_a_server_on_the_same_disk_reads_nothing_of_what_it_has(
    tmp_path: Path, backend: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The root's files are gone, and the new server does not even notice."""
    caplog.set_level("INFO")
    async with InProcessCluster(tmp_path, config=config(backend=backend)) as cluster:
        job = sensors(cluster)
        await job.run(0, batch(0))
        await job.checkpoint()
        for file in chk(job, 1):
            file.unlink()
        shutil.rmtree(job.root / "shared", ignore_errors=True)
        await cluster.respawn_server(cluster.servers[0])
        await job.run(1, {})
        assert stored(cluster) == after(0)
        restored = logged(caplog, "chk-1 in")
        assert len(restored) == 2
        assert all("(0 bytes read" in message for message in restored)


async def test_a_damaged_local_copy_is_replaced_by_the_stored_file(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with InProcessCluster(tmp_path, config=config()) as cluster:
        job = sensors(cluster)
        await job.run(0, batch(0))
        await job.checkpoint()
        [server] = cluster.servers
        await cluster.kill_server(server)
        copies = local_copies(tmp_path)
        for copy in copies:
            corrupt(copy)
        await cluster.add_server(executor_id=server.settings.executor_id)
        await job.run(1, {})
        assert stored(cluster) == after(0)
        assert len(logged(caplog, "damaged and removed")) == len(copies) == 2
