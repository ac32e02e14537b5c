"""Timers on a state server: registered by a prepare, due at a begin, read by pages."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.state_server.attempt import KEYS

from queryable_state.internal.v1 import backend_pb2
from queryable_state.server.state_server.stores import due_timers
from queryable_state.v1 import registration_pb2
from queryable_state.wire.changes import BlockSums, ChangeBlockBuilder
from queryable_state.wire.errors import InvalidRequestError
from queryable_state.wire.keys.store_keys import VOID_NAMESPACE, record_key, window_namespace
from queryable_state.wire.keys.timer_keys import Clock, index_key_of, timer_element

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from tests.state_server.attempt import Attempt
    from tests.state_server.cluster import Cluster, Job

    from queryable_state.server.state_server.server import StateServer


def timer(
    key: str, time_ms: int, clock: Clock = Clock.EVENT_TIME, namespace: bytes = VOID_NAMESPACE
) -> bytes:
    """The store key of a timer."""
    return record_key(KEYS.wire_key(key), namespace, timer_element(clock, time_ms))


def in_order(*keys: bytes) -> list[bytes]:
    return sorted(map(index_key_of, keys))


async def begin(job: Job, server: StateServer, batch_id: int, subtask: int = 0) -> Attempt:
    task = job.attempt(server, batch_id, subtask)
    task.operator_states["timers"] = registration_pb2.TIMER
    await task.locate()
    return await task.begin()


async def write(
    task: Attempt,
    puts: Iterable[bytes] = (),
    deletes: Iterable[bytes] = (),
    value: bytes = b"",
) -> None:
    sums = BlockSums()
    builder = ChangeBlockBuilder(task.begun.states[1].state_id, sums)
    for key in deletes:
        builder.delete(key)
    for key in puts:
        builder.put(key, value)
    blocks = [backend_pb2.PrepareRequest(block=block) for block in builder.finish()]
    seal = backend_pb2.PrepareRequest(seal=sums.seal(task.begun.token, fingerprint=0, row_count=0))
    await task.send([task.open_frame(), *blocks, seal])


async def run(
    job: Job,
    server: StateServer,
    batch_id: int,
    puts: Iterable[bytes] = (),
    deletes: Iterable[bytes] = (),
) -> None:
    """A batch that changes timers of subtask 0."""
    for subtask in range(2):
        task = await begin(job, server, batch_id, subtask)
        await write(task, *((puts, deletes) if subtask == 0 else ()))
    await job.commit(server, batch_id)


async def fetch(
    task: Attempt, query: backend_pb2.DueQuery, state: int = 1
) -> backend_pb2.DueTimers:
    request = backend_pb2.FetchRequest(
        subtask=task.subtask_proto,
        batch_id=task.batch_id,
        token=task.begun.token,
        fetches=[backend_pb2.StateFetch(state_id=task.begun.states[state].state_id, due=query)],
    )
    [result] = (await task.call(task.stub.Fetch, request)).results
    due: backend_pb2.DueTimers = result.due
    return due


@pytest.mark.parametrize("backend", ["heap", "rocksdb"])
async def test_a_begin_has_the_timers_due_at_the_clocks_of_its_batch(
    cluster: Cluster, key_of: Callable[..., str], backend: str
) -> None:
    """Batch N has the timestamp 1000 N; at depth 1 its watermark is 10 (N - 1)."""
    server, job = await cluster.server(backend=backend), cluster.job()
    a, b = key_of(0), key_of(0, 1)
    window = timer(a, 10, namespace=window_namespace(0, 10))
    on_time = timer(b, 2000, Clock.PROCESSING_TIME)
    later = [timer(a, 11), timer(a, 2001, Clock.PROCESSING_TIME)]
    await run(job, server, 0, [timer(b, 9), window, on_time, *later])
    await run(job, server, 1)
    task = await begin(job, server, 2)
    assert list(task.begun.due.timers) == in_order(on_time, timer(b, 9), window)
    assert not task.begun.due.has_more
    assert list((await begin(job, server, 2, 1)).begun.due.timers) == []
    # Deleted by the batch in which they fire, they are gone from the next one.
    for subtask in range(2):
        again = await begin(job, server, 2, subtask)
        await write(again, deletes=[on_time, timer(b, 9), window] if subtask == 0 else [])
    await job.commit(server, 2)
    assert list((await begin(job, server, 3)).begun.due.timers) == in_order(*later)


async def test_no_event_time_timer_is_due_before_the_first_watermark(
    cluster: Cluster, key_of: Callable[..., str]
) -> None:
    server, job = await cluster.server(), cluster.job()
    await run(job, server, 0, [timer(key_of(0), -5), timer(key_of(0), 5, Clock.PROCESSING_TIME)])
    task = await begin(job, server, 1)
    assert task.begun.watermark_ms == 0
    assert list(task.begun.due.timers) == in_order(timer(key_of(0), 5, Clock.PROCESSING_TIME))


async def test_due_timers_are_pinned_at_the_batch_before(
    cluster: Cluster, key_of: Callable[..., str]
) -> None:
    server, job = await cluster.server(), cluster.job()
    old, new = timer(key_of(0), 1), timer(key_of(0), 2)
    await run(job, server, 0, [old])
    await run(job, server, 1)
    task = await begin(job, server, 2)
    await write(task, [new], [old])
    assert list((await begin(job, server, 2)).begun.due.timers) == in_order(old)
    query = backend_pb2.DueQuery(event_time_ms=10)
    assert list((await fetch(await begin(job, server, 2), query)).timers) == in_order(old)


@pytest.mark.parametrize("limit", ["timers", "bytes"])
async def test_more_than_a_page_of_due_timers_is_read_page_by_page(
    cluster: Cluster,
    key_of: Callable[..., str],
    monkeypatch: pytest.MonkeyPatch,
    limit: str,
) -> None:
    server, job = await cluster.server(), cluster.job()
    timers = [timer(key_of(0), time_ms, clock) for time_ms in range(25) for clock in Clock]
    if limit == "timers":
        monkeypatch.setattr(due_timers, "_PAGE_TIMERS", 7)
    else:
        monkeypatch.setattr(due_timers, "_PAGE_BYTES", 7 * len(timers[0]))
    await run(job, server, 0, timers)
    for batch_id in range(1, 4):
        await run(job, server, batch_id)
    task = await begin(job, server, 4)
    page, pages = task.begun.due, [len(task.begun.due.timers)]
    found = list(page.timers)
    while page.has_more:
        query = backend_pb2.DueQuery(
            processing_time_ms=4000, event_time_ms=30, after=found[-1], limit=5
        )
        page = await fetch(task, query)
        pages.append(len(page.timers))
        found += page.timers
    assert found == in_order(*timers)
    assert pages == [7, *[5] * 8, 3]


async def test_a_timer_larger_than_a_page_is_a_page(
    cluster: Cluster, key_of: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(due_timers, "_PAGE_BYTES", 1)
    server, job = await cluster.server(), cluster.job()
    timers = [timer(key_of(0), time_ms) for time_ms in range(2)]
    await run(job, server, 0, timers)
    await run(job, server, 1)
    due = (await begin(job, server, 2)).begun.due
    assert (list(due.timers), due.has_more) == (in_order(timers[0]), True)


async def test_an_operator_without_timers_is_answered_without_due_ones(cluster: Cluster) -> None:
    server, job = await cluster.server(), cluster.job()
    assert not (await job.begin(server, 0)).begun.HasField("due")


async def test_only_timers_can_be_due(cluster: Cluster) -> None:
    server, job = await cluster.server(), cluster.job()
    task = await begin(job, server, 0)
    with pytest.raises(InvalidRequestError, match="kind VALUE: only TIMER states have them"):
        await fetch(task, backend_pb2.DueQuery(), state=0)
    with pytest.raises(InvalidRequestError, match="send the last timer of the page before"):
        await fetch(task, backend_pb2.DueQuery(after=b"\x07"))


async def test_a_record_that_is_no_timer_is_refused(
    cluster: Cluster, key_of: Callable[..., str]
) -> None:
    server, job = await cluster.server(), cluster.job()
    task = await begin(job, server, 0)
    with pytest.raises(InvalidRequestError, match="a timer has a value"):
        await write(task, [timer(key_of(0), 1)], value=b"\x01")
    wrong = record_key(KEYS.wire_key(key_of(0)), VOID_NAMESPACE, b"\x02" + bytes(8))
    for puts, deletes in (([wrong], []), ([], [wrong]), ([wrong[:4]], [])):
        with pytest.raises(InvalidRequestError, match="not that of a timer"):
            await write(task, puts, deletes)


async def test_an_operator_has_one_state_of_timers_without_values(cluster: Cluster) -> None:
    server, job = await cluster.server(), cluster.job()
    task = job.attempt(server, 0)
    task.operator_states |= {"a": registration_pb2.TIMER, "b": registration_pb2.TIMER}
    await task.locate()
    with pytest.raises(InvalidRequestError, match="registers 2 states of kind TIMER"):
        await task.begin()
