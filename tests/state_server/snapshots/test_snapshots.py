"""Snapshots: cut at one batch, written while batches and queries go on."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any

import grpc.aio
import pytest
from tests.state_server.attempt import PARALLELISM, VALUES
from tests.waiting import DEADLINE_S, eventually

from queryable_state.internal.v1 import backend_pb2, checkpoint_pb2
from queryable_state.server.checkpoint.canonical import read_canonical
from queryable_state.server.checkpoint.file_systems.storage import checksum
from queryable_state.server.coordinator import JobConfig
from queryable_state.server.storage.layered.canonical_snapshot import CanonicalSnapshot
from queryable_state.wire.errors import (
    LimitExceededError,
    PlacementError,
    Reason,
    RetryLaterError,
)
from queryable_state.wire.status import error_from_call

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.state_server.cluster import Cluster, Job
    from tests.state_server.gated_files import Gate

    from queryable_state.server.state_server.server import StateServer

MANY = {f"k{i}": f"value {i}" for i in range(200)}


def config(**fields: Any) -> JobConfig:
    return JobConfig(**{"inline_bytes": 0, "checkpoint_interval_ms": 0, **fields})


class Snapshot:
    """One `Snapshot` call and what it has answered."""

    def __init__(self, job: Job, server: StateServer, version: int, **fields: Any) -> None:
        held = server.table.job(job.query_id)
        subtasks = [] if held is None else [each.to_proto() for each in held.subtasks]
        request = backend_pb2.SnapshotRequest(
            **{
                "query_id": job.query_id,
                "checkpoint_id": 1,
                "version": version,
                "subtasks": subtasks,
                "root": str(job.root),
                "directory": "chk-1",
                "shared_directory": "shared",
                **fields,
            }
        )
        cluster = job.cluster
        self.call = cluster.stub(server).Snapshot(request, timeout=DEADLINE_S)

    async def next(self) -> backend_pb2.SnapshotEvent:
        """The next event, or the refusal raised as the error it is."""
        try:
            event = await self.call.read()
        except grpc.aio.AioRpcError as failure:
            raise error_from_call(failure, "server") from None
        assert isinstance(event, backend_pb2.SnapshotEvent)
        return event

    async def ranges(self) -> list[checkpoint_pb2.RangeSnapshot]:
        """What was written, by subtask, after the cut."""
        assert (await self.next()).WhichOneof("event") == "cut"
        written = [(await self.next()).range for _ in range(PARALLELISM)]
        assert await self.call.read() is grpc.aio.EOF
        return sorted(written, key=lambda part: part.index)


def records(job: Job, part: checkpoint_pb2.RangeSnapshot) -> list[str]:
    """The values of a canonical snapshot."""
    [file] = part.files
    return [
        VALUES.decode(value)
        for _, found in read_canonical(job.root / file.path)
        for _, value in found
    ]


def left_behind(directory: Path) -> list[Path]:
    """What snapshots have left on a server's disk, but for its copies."""
    scratch = list(directory.glob("*/scratch/*"))
    return scratch + [path for path in directory.glob("*/stores/*") if "cut" in path.name]


@pytest.mark.parametrize("backend", ["heap", "rocksdb"])
async def test_a_snapshot_is_of_exactly_its_batch(
    cluster: Cluster, tmp_path: Path, key_of: Callable[..., str], backend: str
) -> None:
    server, job = await cluster.server(), cluster.job(config=config(backend=backend))
    await job.run(server, 0, {key_of(0): "old", key_of(1): "old"})
    # Not told to be stable, batch 1 waits in front of the base.
    await job.run(server, 1, {key_of(1): "new"})
    parts = await Snapshot(job, server, 0, format=checkpoint_pb2.CANONICAL).ranges()
    assert sorted(value for part in parts for value in records(job, part)) == ["old", "old"]
    assert [(part.index, part.first_key_group, part.last_key_group) for part in parts] == [
        (0, 0, 63),
        (1, 64, 127),
    ]
    assert all(size.records and size.bytes for part in parts for size in part.sizes)
    assert left_behind(tmp_path) == []


async def test_files_carry_their_size_and_checksum_and_small_ones_are_inlined(
    cluster: Cluster,
) -> None:
    server = await cluster.server(backend="rocksdb")
    job = cluster.job(config=config(inline_bytes=100))
    await job.run(server, 0, MANY)
    for part in await Snapshot(job, server, 0).ranges():
        assert part.format == checkpoint_pb2.ROCKSDB
        for file in part.files:
            data = (job.root / file.path).read_bytes() if file.path else file.inlined
            assert (len(data), checksum(data)) == (file.size_bytes, file.checksum)
            assert bool(file.path) == (file.size_bytes > 100)
            assert file.path.startswith("shared/") == (
                file.name.endswith(".sst") and file.size_bytes > 100
            )


async def test_the_next_snapshot_writes_only_what_is_new(cluster: Cluster) -> None:
    server = await cluster.server(backend="rocksdb")
    job = cluster.job(config=config(inline_bytes=200))
    await job.run(server, 0, MANY)
    first = await Snapshot(job, server, 0).ranges()
    await job.run(server, 1, {"k1": "x"})
    tables = {file.path for part in first for file in part.files if file.path}
    modified = {path: (job.root / path).stat().st_mtime_ns for path in tables}
    second = await Snapshot(job, server, 1, checkpoint_id=2, directory="chk-2").ranges()
    again = {file.path for part in second for file in part.files}
    assert {path for path in tables if path.startswith("shared/")} <= again
    assert modified == {path: (job.root / path).stat().st_mtime_ns for path in tables}
    assert sum(part.new_bytes for part in second) < sum(part.new_bytes for part in first)


async def test_batches_and_queries_go_on_while_a_snapshot_is_written(
    cluster: Cluster, tmp_path: Path, gate: Gate
) -> None:
    server = await cluster.server(backend="rocksdb")
    root = f"gated://{cluster.root}"
    job = cluster.job(config=config(state_root=root))
    await job.run(server, 0, MANY)
    gate.close_for("/chk-1/")
    snapshot = Snapshot(job, server, 0, root=root, format=checkpoint_pb2.CANONICAL)
    assert (await snapshot.next()).HasField("cut")
    await eventually(lambda: gate.waiting == PARALLELISM)
    for number in (1, 2, 3):
        await job.run(server, number, {"k1": str(number)})
        assert job.read(server, "k1", "k2") == [str(number), "value 2"]
    gate.open()
    parts = [(await snapshot.next()).range for _ in range(PARALLELISM)]
    assert sorted(v for part in parts for v in records(job, part)) == sorted(MANY.values())
    assert await snapshot.call.read() is grpc.aio.EOF
    await eventually(lambda: left_behind(tmp_path) == [])


@pytest.mark.parametrize("kind", [checkpoint_pb2.CANONICAL, checkpoint_pb2.ROCKSDB])
async def test_a_snapshot_that_is_given_up_leaves_nothing_behind(
    cluster: Cluster, tmp_path: Path, gate: Gate, kind: Any
) -> None:
    server = await cluster.server(backend="rocksdb")
    root = f"gated://{cluster.root}"
    job = cluster.job(config=config(state_root=root))
    await job.run(server, 0, MANY)
    gate.close_for("/chk-1/")
    snapshot = Snapshot(job, server, 0, root=root, format=kind)
    assert (await snapshot.next()).HasField("cut")
    await eventually(lambda: gate.waiting > 0)
    assert left_behind(tmp_path)
    snapshot.call.cancel()
    gate.open()
    await eventually(lambda: left_behind(tmp_path) == [])
    await job.run(server, 1, {"k1": "x"})
    assert len(await Snapshot(job, server, 1, root=root, directory="chk-2").ranges()) == PARALLELISM


async def test_a_server_that_loses_a_store_while_it_writes_says_so(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is no failure of the storage, which are counted against the job."""
    dropped = threading.Event()
    write = CanonicalSnapshot.write_canonical

    def write_late(cut: CanonicalSnapshot, writer: Any) -> None:
        assert dropped.wait(DEADLINE_S)
        write(cut, writer)

    monkeypatch.setattr(CanonicalSnapshot, "write_canonical", write_late)
    server, job = await cluster.server(), cluster.job(config=config())
    await job.run(server, 0, MANY)
    snapshot = Snapshot(job, server, 0)
    assert (await snapshot.next()).HasField("cut")
    request = backend_pb2.DropQueryRequest(query_id=job.query_id)
    await cluster.stub(server).DropQuery(request)
    dropped.set()
    with pytest.raises(PlacementError) as refused:
        await snapshot.next()
    assert refused.value.reason == Reason.NOT_OWNER


async def test_a_state_that_is_too_large_is_named_with_what_to_do(
    cluster: Cluster, tmp_path: Path
) -> None:
    server, job = await cluster.server(), cluster.job(config=config(max_state_bytes=1000))
    await job.run(server, 0, MANY)
    with pytest.raises(LimitExceededError, match=r"'last'.* allow 1000 ") as refused:
        await Snapshot(job, server, 0).next()
    assert "FsStateBackend" in refused.value.message
    assert left_behind(tmp_path) == []


async def test_what_is_not_here_is_refused(cluster: Cluster) -> None:
    cluster.coordinator.engine.set_executors(2)
    first, second = await cluster.server("e1"), await cluster.server("e2")
    job = cluster.job(durable=True)
    task = await job.begin(first, 0)
    await task.prepare({})
    subtasks = [task.subtask_proto]
    with pytest.raises(PlacementError) as refused:
        await Snapshot(job, second, 0, subtasks=subtasks).next()
    assert refused.value.reason == Reason.NOT_OWNER
    with pytest.raises(RetryLaterError) as behind:
        await Snapshot(job, first, 0, subtasks=subtasks).next()
    assert behind.value.reason == Reason.BEHIND


async def test_copies_of_older_snapshots_go(
    cluster: Cluster, tmp_path: Path, key_of: Callable[..., str]
) -> None:
    server, job = await cluster.server(), cluster.job(config=config())
    for number in range(4):
        await job.run(server, number, {key_of(0): str(number), key_of(1): str(number)})
        await Snapshot(
            job, server, number, checkpoint_id=number + 1, directory=f"chk-{number + 1}"
        ).ranges()
    copies = tmp_path / "e1" / "copies" / job.query_id.hex()
    await eventually(lambda: len(list(copies.iterdir())) == 2 * PARALLELISM)


async def test_a_dropped_job_leaves_no_copies(
    cluster: Cluster, tmp_path: Path, key_of: Callable[..., str]
) -> None:
    server, job = await cluster.server(), cluster.job(config=config())
    await job.run(server, 0, {key_of(0): "x"})
    await Snapshot(job, server, 0).ranges()
    copies = tmp_path / "e1" / "copies" / job.query_id.hex()
    assert copies.exists()
    cluster.coordinator.engine.end(job.query_id)
    cluster.coordinator.coordinator.refresh()
    await asyncio.to_thread(cluster.coordinator.coordinator.drop_query, job.query_id)
    await eventually(lambda: not copies.exists())
