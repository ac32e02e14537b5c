"""A prepare is acknowledged when its changelog is durable, and refused when it is not."""

from __future__ import annotations

import asyncio
import resource
from typing import TYPE_CHECKING

import pytest
from tests.state_server.attempt import VALUES
from tests.waiting import eventually

from queryable_state.internal.v1.changes_pb2 import ChangeBlock
from queryable_state.server.checkpoint.file_systems.storage import checksum
from queryable_state.server.checkpoint.file_systems.storage_factory import storage_of
from queryable_state.server.checkpoint.state_root import StateRoot
from queryable_state.server.config.limits import Limits
from queryable_state.server.coordinator import JobConfig
from queryable_state.v1 import query_pb2
from queryable_state.wire.changelog import read_changelog
from queryable_state.wire.errors import (
    CheckpointError,
    LimitExceededError,
    PlacementError,
    Reason,
    SupersededError,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.state_server.attempt import Attempt
    from tests.state_server.cluster import Clock, Cluster
    from tests.state_server.gated_files import Gate


def changelog_of(root: Path, task: Attempt) -> Path:
    """Where the changelog of an attempt of subtask 0 belongs."""
    token = task.begun.token
    folder = root / "changelog" / str(task.batch_id) / "op" / "0-63"
    return folder / f"{token.run_epoch}-{token.task_attempt}"


def changelogs(root: Path) -> list[str]:
    """All changelogs of a root, by path below it."""
    folder = root / "changelog"
    found = (path for path in folder.rglob("*") if path.is_file())
    return sorted(str(path.relative_to(folder)) for path in found if "_manifest" not in path.name)


async def test_an_acknowledged_prepare_has_its_changelog_on_disk(
    cluster: Cluster, key_of: Callable[..., str]
) -> None:
    server, job = await cluster.server(), cluster.job(durable=True)
    task = await job.begin(server, 0)
    frames = task.frames({key_of(0): "x"}, fingerprint=7)
    await task.send(frames)
    written = read_changelog(changelog_of(job.root, task).read_bytes())
    assert written.batch_id == 0
    assert written.seal.token == task.begun.token
    assert written.seal.fingerprint == 7
    assert (
        written.offsets_digest == cluster.coordinator.engine.clocks(job.query_id, 0).offsets_digest
    )
    assert list(written.blocks) == [
        ChangeBlock.FromString(frame.block) for frame in frames if frame.HasField("block")
    ]


async def test_the_commit_reports_which_changelog_counts(
    cluster: Cluster, key_of: Callable[..., str]
) -> None:
    server, job = await cluster.server(), cluster.job(durable=True)
    first = await job.begin(server, 0)
    await first.prepare({key_of(0): "first"})
    second = await job.begin(server, 0)
    await second.prepare({key_of(0): "second"})
    await (await job.begin(server, 0, 1)).prepare({})
    await job.commit(server, 0)
    await eventually(lambda: any((job.root / "changelog" / "0").glob("_manifest-*")))
    root = StateRoot(str(job.root), storage_of(str(job.root)))
    manifest = await asyncio.to_thread(root.manifest, 0)
    assert manifest is not None
    [file, other] = manifest.changelogs
    data = changelog_of(job.root, second).read_bytes()
    assert (job.root / file.path).read_bytes() == data
    assert (file.size_bytes, file.checksum) == (len(data), checksum(data))
    assert (file.index, file.parallelism, file.last_key_group) == (0, 2, 63)
    assert (other.index, other.first_key_group, other.last_key_group) == (1, 64, 127)


async def test_a_job_without_a_lasting_place_writes_nothing(
    cluster: Cluster, key_of: Callable[..., str]
) -> None:
    server, job = await cluster.server(), cluster.job(config=JobConfig(changelog=False))
    await job.run(server, 0, {key_of(0): "x"})
    assert not job.root.exists()


async def test_a_prepare_that_cannot_be_written_is_refused_and_harms_nothing(
    cluster: Cluster, key_of: Callable[..., str]
) -> None:
    server, job = await cluster.server(), cluster.job(durable=True)
    await job.run(server, 0, {key_of(0): "old"})
    task = await job.begin(server, 1)
    in_the_way = job.root / "changelog" / "1"
    in_the_way.write_text("a file where a folder belongs")
    with pytest.raises(CheckpointError, match="choose another directory") as refused:
        await task.prepare({key_of(0): "new"})
    assert str(job.root) in refused.value.message
    assert refused.value.reason == Reason.STORAGE_WRITE_FAILED
    assert job.read(server, key_of(0), consistency=query_pb2.UNCOMMITTED) == ["old"]
    assert server.staged_bytes == 0
    in_the_way.unlink()
    await task.prepare({key_of(0): "new"})
    await (await job.begin(server, 1, 1)).prepare({})
    await job.commit(server, 1)
    assert job.read(server, key_of(0)) == ["new"]


async def test_an_attempt_that_is_overtaken_writes_nothing(
    cluster: Cluster, key_of: Callable[..., str]
) -> None:
    server, job = await cluster.server(), cluster.job(durable=True)
    low = await job.begin(server, 0, attempt=1)
    high = await job.begin(server, 0, attempt=2)
    await high.prepare({key_of(0): "high"})
    with pytest.raises(SupersededError) as refused:
        await low.prepare({key_of(0): "low"})
    assert refused.value.reason == Reason.STALE_TOKEN
    assert not changelog_of(job.root, low).exists()


async def test_a_server_whose_lease_ends_while_it_writes_acknowledges_nothing(
    cluster: Cluster, key_of: Callable[..., str], clock: Clock, gate: Gate
) -> None:
    """The zombie's file is there, and an attempt after it is the one that counts."""
    server = await cluster.server(clock=clock)
    job = cluster.job(config=JobConfig(state_root=f"gated://{cluster.root}"))
    key = key_of(0)
    zombie = await job.begin(server, 0)
    gate.close_for("/changelog/")
    preparing = asyncio.create_task(zombie.prepare({key: "zombie"}))
    await eventually(lambda: gate.waiting == 1)
    clock.advance(120)
    gate.open()
    with pytest.raises(PlacementError) as refused:
        await preparing
    assert refused.value.reason == Reason.LEASE_EXPIRED
    assert changelog_of(job.root, zombie).exists()
    await server.renew_lease()
    assert job.read(server, key, consistency=query_pb2.UNCOMMITTED) == []
    await (await job.begin(server, 0)).prepare({key: "counts"})
    await (await job.begin(server, 0, 1)).prepare({})
    await job.commit(server, 0)
    assert job.read(server, key) == ["counts"]


async def test_queries_and_other_prepares_go_on_while_one_is_written(
    cluster: Cluster, key_of: Callable[..., str], gate: Gate
) -> None:
    server = await cluster.server()
    job = cluster.job(config=JobConfig(state_root=f"gated://{cluster.root}"))
    await job.run(server, 0, {key_of(0): "x"})
    slow, other = await job.begin(server, 1), await job.begin(server, 1, 1)
    gate.close_for("/0-63/")
    preparing = asyncio.create_task(slow.prepare({key_of(0): "y"}))
    await eventually(lambda: gate.waiting == 1)
    await other.prepare({key_of(1): "z"})
    assert await other.fetch(key_of(1)) == {}
    assert job.read(server, key_of(0)) == ["x"]
    gate.open()
    await preparing


async def test_what_is_kept_for_the_changelog_counts_among_staged_bytes(
    cluster: Cluster, key_of: Callable[..., str]
) -> None:
    server = await cluster.server(limits=Limits(max_staged_bytes=100_000))
    job = cluster.job(durable=True)
    values = {key_of(0): "x" * 60_000}
    task = await job.begin(server, 0)
    with pytest.raises(LimitExceededError, match="max_staged_bytes"):
        await task.prepare(values)
    assert server.staged_bytes == 0
    assert changelogs(job.root) == []


async def test_a_file_larger_than_the_process_may_write_is_told_with_what_to_do(
    cluster: Cluster, tmp_path: Path, key_of: Callable[..., str]
) -> None:
    """As on a full disk: nothing is acknowledged, nothing is left, and smaller ones go on."""
    from queryable_state.server.state_server.launch import ensure_server

    settings = cluster.settings("e9", directory=str(tmp_path / "e9"))
    addresses = await asyncio.to_thread(ensure_server, tmp_path / "e9", settings)
    try:
        job = cluster.job(durable=True)
        task = job.attempt_at(addresses.backend, 0)
        await task.locate()
        await task.begin()
        resource.prlimit(addresses.pid, resource.RLIMIT_FSIZE, (1 << 17, 1 << 17))
        with pytest.raises(CheckpointError, match="ulimit -f") as refused:
            await task.prepare({key_of(0): "x" * (1 << 18)})
        assert str(job.root) in refused.value.message
        assert changelogs(job.root) == []
        smaller = await job.attempt_at(addresses.backend, 0).begin()
        await smaller.prepare({key_of(0): "small"})
        [block] = read_changelog(changelog_of(job.root, smaller).read_bytes()).blocks
        assert list(map(VALUES.decode, block.put_values)) == ["small"]
    finally:
        await task.shut_down()
