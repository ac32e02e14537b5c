"""Checkpoints and savepoints that real state servers write."""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING, Any

import pytest

from queryable_state.internal.v1 import checkpoint_pb2
from queryable_state.server.checkpoint.canonical import read_canonical
from queryable_state.server.checkpoint.file_systems.storage import file_checksum
from queryable_state.server.checkpoint.file_systems.storage_factory import storage_of
from queryable_state.server.checkpoint.state_root import StateRoot, read_savepoint
from queryable_state.server.coordinator import JobConfig
from queryable_state.server.testing.cluster import InProcessCluster, declare
from queryable_state.wire.errors import CheckpointError
from queryable_state.wire.keys.store_keys import VOID_NAMESPACE, record_key
from queryable_state.wire.state_codecs import StateCodecs

if TYPE_CHECKING:
    from pathlib import Path

    from queryable_state.internal.v1.checkpoint_pb2 import CheckpointMetadata
    from queryable_state.server.testing.cluster import InProcessJob

BACKENDS = ["heap", "rocksdb"]
KEYS = [f"key {number}" for number in range(200)]
LONG_S = 20.0


def config(backend: str = "heap", **fields: Any) -> JobConfig:
    defaults: dict[str, Any] = {"inline_bytes": 0, "checkpoint_interval_ms": 0, "backend": backend}
    return JobConfig(**(defaults | fields))


def sensors(cluster: InProcessCluster, *, durable: bool = True) -> InProcessJob:
    return cluster.job("sensors", declare("last", "string", "bigint"), durable=durable)


def batch(number: int, keys: list[str] = KEYS) -> dict[str, dict[str, int]]:
    return {"last": {key: number * 1000 + i for i, key in enumerate(keys)}}


def written(metadata: CheckpointMetadata, root: Path) -> dict[str, int]:
    """What the canonical files of a savepoint or heap checkpoint hold."""
    found: dict[bytes, bytes] = {}
    (operator,) = metadata.operators
    (state,) = operator.states
    for part in operator.ranges:
        assert part.format == checkpoint_pb2.CANONICAL
        for file in part.files:
            for state_id, records in read_canonical(root / file.path):
                assert state_id == state.state_id
                found.update(records)
    codecs = StateCodecs(state)
    values = {}
    for key in KEYS:
        value = found.pop(record_key(codecs.key_groups.wire_key(key), VOID_NAMESPACE), None)
        if value is not None:
            values[key] = codecs.value.decode(value)
    assert found == {}
    return values


def files(metadata: CheckpointMetadata) -> list[checkpoint_pb2.StoredFile]:
    return [file for o in metadata.operators for part in o.ranges for file in part.files]


def check_intact(root: StateRoot) -> None:
    """Every file that a complete checkpoint names is there, as it names it."""
    for metadata in root.checkpoints():
        for file in files(metadata):
            data = root.storage.read(root.path(file.path)) if file.path else file.inlined
            assert len(data) == file.size_bytes


async def savepoint(cluster: InProcessCluster, directory: Path, **options: Any) -> tuple[str, int]:
    return await asyncio.to_thread(
        cluster.coordinator.coordinator.trigger_savepoint,
        "sensors",
        str(directory),
        timeout_s=LONG_S,
        **options,
    )


async def test_a_checkpoint_has_every_record_of_its_batch_and_none_of_the_next(
    tmp_path: Path,
) -> None:
    async with InProcessCluster(tmp_path, servers=2, config=config()) as cluster:
        job = sensors(cluster)
        await job.run(0, batch(0))
        await job.run(1, batch(1, KEYS[:50]))
        await job.seal(2, batch(2))
        made = await job.checkpoint()
        assert made.version == 1
        assert written(made, job.root) == batch(0)["last"] | batch(1, KEYS[:50])["last"]
        for file in files(made):
            assert file_checksum(job.root / file.path) == file.checksum


async def test_an_incremental_checkpoint_writes_only_what_is_new(tmp_path: Path) -> None:
    many = [f"key {number}" for number in range(5_000)]
    async with InProcessCluster(tmp_path, config=config("rocksdb")) as cluster:
        job = sensors(cluster)
        await job.run(0, batch(0, many))
        await job.checkpoint()
        await job.run(1, batch(1, many[:10]))
        second = await job.checkpoint()
        newest, first = cluster.coordinator.coordinator.checkpoints(job.query_id)
        assert first.new_bytes == first.bytes
        assert newest.new_bytes < first.new_bytes / 2
        assert newest.bytes > first.bytes
        assert second.backend == "rocksdb"
        root = StateRoot(str(job.root), storage_of(str(job.root)))
        for number in range(2, 6):
            await job.run(number, batch(number, many[:10]))
            await job.checkpoint()
            check_intact(root)
        assert len(root.checkpoints()) == 2
        named = {file.path for metadata in root.checkpoints() for file in files(metadata)}
        assert {f"shared/{path.name}" for path in (job.root / "shared").iterdir()} <= named


async def test_a_checkpoint_that_is_not_incremental_shares_nothing(tmp_path: Path) -> None:
    settings = config("rocksdb", incremental=False)
    async with InProcessCluster(tmp_path, config=settings) as cluster:
        job = sensors(cluster)
        await job.run(0, batch(0))
        made = await job.checkpoint()
        assert made.backend == "rocksdb"
        assert all(file.path.startswith("chk-1/") for file in files(made))


async def test_small_states_stand_in_the_metadata(tmp_path: Path) -> None:
    async with InProcessCluster(tmp_path, config=config(inline_bytes=20_480)) as cluster:
        job = sensors(cluster)
        await job.run(0, batch(0, KEYS[:20]))
        made = await job.checkpoint()
        assert all(file.inlined and not file.path for file in files(made))
        (report,) = cluster.coordinator.coordinator.checkpoints(job.query_id)
        assert report.bytes == sum(len(file.inlined) for file in files(made))


async def test_a_state_too_large_fails_the_job_where_no_failure_is_tolerated(
    tmp_path: Path,
) -> None:
    settings = config(max_state_bytes=64, tolerable_failures=0, checkpoint_interval_ms=1)
    async with InProcessCluster(tmp_path, config=settings) as cluster:
        job = sensors(cluster)
        await job.run(0, batch(0))
        engine = cluster.coordinator.engine
        async with asyncio.timeout(LONG_S):
            while job.query_id not in engine.stopped:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        error = engine.stopped[job.query_id]
        assert isinstance(error, CheckpointError)
        assert "max_state_size" in str(error)
        assert "'last'" in str(error)


async def test_a_root_that_cannot_be_written_fails_the_checkpoint_and_names_it(
    tmp_path: Path,
) -> None:
    async with InProcessCluster(tmp_path, config=config("rocksdb")) as cluster:
        job = sensors(cluster)
        await job.run(0, batch(0))
        (job.root / "shared").write_text("no folder")
        with pytest.raises(CheckpointError, match=str(job.root)):
            await job.checkpoint()
        await job.run(1, batch(1))
        (job.root / "shared").unlink()
        assert (await job.checkpoint()).version == 1


@pytest.mark.parametrize("backend", BACKENDS)
async def test_a_savepoint_is_canonical_and_complete_whatever_the_backend(
    tmp_path: Path, backend: str
) -> None:
    async with InProcessCluster(tmp_path, servers=2, config=config(backend)) as cluster:
        job = sensors(cluster)
        await job.run(0, batch(0))
        await job.run(1, batch(1, KEYS[:50]))
        uri, version = await savepoint(cluster, tmp_path / "savepoints")
        await job.run(2, batch(2))
        assert version == 1
        made = read_savepoint(uri, storage_of(uri))
        (folder,) = (tmp_path / "savepoints").iterdir()
        assert written(made, folder) == batch(0)["last"] | batch(1, KEYS[:50])["last"]


async def test_a_job_without_a_lasting_place_has_savepoints(tmp_path: Path) -> None:
    async with InProcessCluster(tmp_path, config=config()) as cluster:
        job = sensors(cluster, durable=False)
        await job.run(0, batch(0))
        uri, _ = await savepoint(cluster, tmp_path / "savepoints", stop=True)
        (folder,) = (tmp_path / "savepoints").iterdir()
        assert written(read_savepoint(uri, storage_of(uri)), folder) == (batch(0, KEYS)["last"])
        assert not (tmp_path / "jobs").exists()


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("backend", BACKENDS)
async def test_checkpoints_all_the_time_lose_nothing_and_hold_nothing_back(
    tmp_path: Path, backend: str, seed: int
) -> None:
    """Batches, checkpoints one after the other, savepoints, servers that die: all at once."""
    chance = random.Random(seed)
    settings = config(backend, checkpoint_interval_ms=1)
    expected: dict[str, int] = {}
    async with InProcessCluster(tmp_path, servers=2, config=settings) as cluster:
        job = sensors(cluster)
        for number in range(14):
            changes = batch(number, chance.sample(KEYS, 40))
            await job.run(number, changes)
            expected |= changes["last"]
            if number < 13 and chance.random() < 0.2:
                await cluster.respawn_server(chance.choice(cluster.servers))
        uri, version = await savepoint(cluster, tmp_path / "savepoints")
        assert version == 13
        (folder,) = (tmp_path / "savepoints").iterdir()
        assert written(read_savepoint(uri, storage_of(uri)), folder) == expected
        root = StateRoot(str(job.root), storage_of(str(job.root)))
        assert root.checkpoints()
        await job.run(14, batch(14))
        async with asyncio.timeout(LONG_S):
            while any(  # noqa: ASYNC110
                subtask.store.base_version < 14
                for server in cluster.servers
                for subtask in server.table.subtasks()
            ):
                await asyncio.sleep(0.01)
    check_intact(root)
