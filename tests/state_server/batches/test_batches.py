"""Batches on a state server: begin, fetch, prepare, commit."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from tests.waiting import eventually

from queryable_state.internal.v1 import backend_pb2
from queryable_state.v1 import query_pb2
from queryable_state.wire.errors import (
    CorruptDataError,
    InvalidRequestError,
    PlacementError,
    Reason,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.state_server.cluster import Cluster

    from queryable_state.server.coordinator.model.engine import BatchClocks


@pytest.mark.parametrize("backend", ["heap", "rocksdb"])
async def test_a_batch_is_seen_once_it_is_committed(cluster: Cluster, backend: str) -> None:
    server, job = await cluster.server(backend=backend), cluster.job()
    await job.run(server, 0, {"a": "1", "b": "2"})
    assert job.read(server, "a", "b") == ["1", "2"]
    await job.run(server, 1, {"b": "3"})
    answer = job.ask(server, "a", "b", "c")
    assert answer.info.version == 1
    assert job.read(server, "a", "b") == ["1", "3"]
    assert list(answer.missing) == [2]


async def test_begin_tells_the_clocks_and_the_states(cluster: Cluster) -> None:
    server, job = await cluster.server(), cluster.job()
    await job.run(server, 0, {})
    begun = (await job.begin(server, 1)).begun
    assert begun.batch_timestamp_ms == 1000
    # At depth 1 the operator runs at the watermark of the batch before.
    assert begun.watermark_ms == 0
    assert (await job.begin(server, 1)).begun.states[0].state_id > 0
    await job.run(server, 1, {})
    assert (await job.begin(server, 2)).begun.watermark_ms == 10


async def test_the_begin_of_the_next_batch_commits_the_one_before(
    cluster: Cluster, key_of: Callable[..., str]
) -> None:
    server, job = await cluster.server(), cluster.job()
    first = await job.begin(server, 0)
    await first.prepare({key_of(0): "x"})
    assert job.read(server, key_of(0)) == []
    await job.begin(server, 1)
    assert job.read(server, key_of(0)) == ["x"]


async def test_fetches_read_the_batch_before_whatever_is_sealed(
    cluster: Cluster, key_of: Callable[..., str]
) -> None:
    server, job = await cluster.server(), cluster.job()
    key = key_of(0)
    await job.run(server, 0, {key: "old"})
    first = await job.begin(server, 1)
    await first.prepare({key: "new"})
    second = await job.begin(server, 1)
    assert second.begun.sealed_before
    assert await second.fetch(key, key_of(0, 1)) == {key: "old"}
    assert await first.fetch(key) == {key: "old"}
    assert job.read(server, key) == ["old"]
    assert job.read(server, key, consistency=query_pb2.UNCOMMITTED) == ["new"]


async def test_a_batch_that_arrives_damaged_is_to_be_sent_again(
    cluster: Cluster, key_of: Callable[..., str]
) -> None:
    server, job = await cluster.server(), cluster.job()
    task = await job.begin(server, 0)
    opening, block, seal = task.frames({key_of(0): "x"})
    for damaged in ([opening, seal], [opening, block, block, seal]):
        with pytest.raises(CorruptDataError) as refused:
            await task.send(damaged)
        assert refused.value.reason == Reason.CHECKSUM_MISMATCH
    with pytest.raises(CorruptDataError):
        await task.send([opening, backend_pb2.PrepareRequest(block=b"\xff\xff"), seal])
    assert job.read(server, key_of(0), consistency=query_pb2.UNCOMMITTED) == []
    await task.send([opening, block, seal])
    assert job.read(server, key_of(0), consistency=query_pb2.UNCOMMITTED) == ["x"]


async def test_frames_out_of_order_are_an_invalid_request(
    cluster: Cluster, key_of: Callable[..., str]
) -> None:
    server, job = await cluster.server(), cluster.job()
    task = await job.begin(server, 0)
    opening, block, seal = task.frames({key_of(0): "x"})
    for frames in ([], [block, seal], [opening, opening], [opening, block]):
        with pytest.raises(InvalidRequestError):
            await task.send(frames)
    assert server.table.staged_bytes() == 0


async def test_a_task_that_has_not_begun_here_is_sent_to_begin(
    cluster: Cluster, key_of: Callable[..., str]
) -> None:
    server, job = await cluster.server(), cluster.job()
    await job.begin(server, 0)
    stranger = job.attempt(server, 0)
    stranger.begun.token.CopyFrom((await job.begin(server, 0)).begun.token)
    stranger.begun.token.task_attempt += 1
    stranger.begun.states.add(state_id=1)
    with pytest.raises(PlacementError, match="not begun"):
        await stranger.fetch(key_of(0))
    stranger.subtask = 1
    with pytest.raises(PlacementError, match="not owned"):
        await stranger.fetch(key_of(0))


async def test_the_coordinator_is_asked_once_however_many_begin(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One question a batch, seen from the engine behind the coordinator."""
    server, job = await cluster.server(), cluster.job()
    await job.run(server, 0, {})
    asked: list[int] = []
    clocks = cluster.coordinator.engine.clocks

    def counted(query_id: bytes, batch_id: int) -> BatchClocks:
        asked.append(batch_id)
        return clocks(query_id, batch_id)

    monkeypatch.setattr(cluster.coordinator.engine, "clocks", counted)
    await asyncio.gather(*(job.begin(server, 1, n % 2) for n in range(10)))
    await job.begin(server, 1)
    assert asked == [1]


async def test_what_is_stable_is_folded(
    cluster: Cluster,
    key_of: Callable[..., str],
) -> None:
    server, job = await cluster.server(compact_chunk_records=2), cluster.job()
    await job.run(server, 0, {f"k{i}": str(i) for i in range(50)})
    await job.run(server, 1, {"k1": "x"})
    await server.renew_lease()
    await server.renew_lease()
    stores = [subtask.store for subtask in server.table.subtasks()]
    await eventually(lambda: all(store.base_version == 1 for store in stores))
    assert all(store.overlay_bytes == 0 for store in stores)
    assert job.read(server, "k1", "k2") == ["x", "2"]


async def test_stores_of_an_operators_former_parallelism_are_dropped(
    cluster: Cluster, key_of: Callable[..., str]
) -> None:
    server, job = await cluster.server(), cluster.job()
    await job.run(server, 0, {key_of(0): "x", key_of(1): "y"})
    begun = await job.restart().begin(server, 1, parallelism=1)
    assert begun.begun.complete_since_batch == 1
    assert [subtask.id.parallelism for subtask in server.table.subtasks()] == [1]
    for key in (key_of(0), key_of(1)):
        assert job.ask(server, key).failed[0].error.reason == Reason.STATE_LOST


async def test_a_server_without_a_part_at_the_new_parallelism_answers_no_old_values(
    cluster: Cluster, key_of: Callable[..., str]
) -> None:
    """Nobody opens a store at the new parallelism before it has let go of its own."""
    cluster.coordinator.engine.set_executors(2)
    first, second, job = await cluster.server("e1"), await cluster.server("e2"), cluster.job()
    for subtask, server in enumerate((first, second)):
        task = await job.begin(server, 0, subtask)
        await task.prepare({key_of(subtask): "old"})
    await job.commit(first, 0)
    restarted = job.restart()
    with pytest.raises(PlacementError) as refused:
        await restarted.begin(second, 1, parallelism=1)
    assert refused.value.reason == Reason.NO_OWNER
    await first.renew_lease()
    assert list(first.table.subtasks()) == []
    await restarted.begin(second, 1, parallelism=1)
    assert job.ask(first, key_of(0)).error.reason == Reason.NOT_OWNER


async def test_a_subtask_has_one_owner_and_others_say_who(
    cluster: Cluster, key_of: Callable[..., str]
) -> None:
    cluster.coordinator.engine.set_executors(2)
    first, second, job = await cluster.server("e1"), await cluster.server("e2"), cluster.job()
    task = await job.begin(first, 0)
    stranger = job.attempt(second, 0)
    request = backend_pb2.LocateSubtaskRequest(subtask=task.subtask_proto)
    for _ in range(2):
        located = await stranger.call(stranger.stub.LocateSubtask, request)
        assert located.server_id == first.server_id
        assert located.address == first.addresses.backend
    with pytest.raises(PlacementError) as refused:
        await stranger.begin()
    assert refused.value.reason == Reason.NOT_OWNER
    assert list(second.table.subtasks()) == []
    assert second.table.jobs() == []
