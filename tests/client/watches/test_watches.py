"""Watches of every kind of state: each committed change once, with its old and its new value."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from tests.client.asking import client_of
from tests.waiting import DEADLINE_S

from queryable_state.client import (
    ChangeKind,
    InvalidRequestError,
    KeyTypeError,
    TimeWindow,
    blocking,
)
from queryable_state.server.testing.changes import ReplaceList, Windows
from queryable_state.server.testing.cluster import declare, windowed
from queryable_state.v1 import registration_pb2

if TYPE_CHECKING:
    from queryable_state.client import Change, QueryableStateClient, Watch
    from queryable_state.server.testing.cluster import InProcessCluster, InProcessJob

PUT, DELETE, APPEND, CLEAR, GAP = ChangeKind


async def next_changes(watch: Watch, count: int) -> list[Change]:
    async with asyncio.timeout(DEADLINE_S):
        return [await anext(watch) for _ in range(count)]


def short(changes: list[Change]) -> list[tuple[Any, ...]]:
    return [(each.batch, each.kind, each.key, each.old, each.new) for each in changes]


async def test_changes_of_a_key_have_their_old_and_new_values(
    job: InProcessJob, client: QueryableStateClient
) -> None:
    async with client.watch("sensors", "last", keys=["sensor_1", "sensor_x"]) as watch:
        assert watch.batch == 1
        await job.run(2, {"last": {"sensor_1": 7.5, "sensor_2": 8.5}})
        await job.run(3, {})
        await job.run(4, {"last": {"sensor_x": 1.0}})
        await job.run(5, {"last": {"sensor_x": None, "sensor_1": 7.5}})
        changes = await next_changes(watch, 4)
    assert sorted(short(changes), key=lambda each: (each[0], each[2])) == [
        (2, PUT, "sensor_1", 1.0, 7.5),
        (4, PUT, "sensor_x", None, 1.0),
        (5, PUT, "sensor_1", 7.5, 7.5),
        (5, DELETE, "sensor_x", 1.0, None),
    ]
    assert all(each.is_old_known and each.commit_time_ms > 0 for each in changes)


async def test_a_whole_state_arrives_batch_by_batch_over_all_owners(
    job: InProcessJob, client: QueryableStateClient
) -> None:
    async with client.watch("sensors", "last") as watch:
        for batch in (2, 3):
            await job.run(
                batch, {"last": {f"sensor_{number}": batch * 1.5 for number in range(100)}}
            )
        changes = await next_changes(watch, 200)
    assert [each.batch for each in changes] == [2] * 100 + [3] * 100
    assert {each.key for each in changes[:100]} == {f"sensor_{number}" for number in range(100)}
    assert {(each.old, each.new) for each in changes[100:]} == {(3.0, 4.5)}


async def test_a_prefix_selects_keys(job: InProcessJob, client: QueryableStateClient) -> None:
    async with client.watch("sensors", "last", prefix="sensor_9") as watch:
        await job.run(2, {"last": {f"sensor_{number}": 0.5 for number in range(100)}})
        changes = await next_changes(watch, 11)
    expected = {"sensor_9", *(f"sensor_9{number}" for number in range(10))}
    assert {each.key for each in changes} == expected


async def test_each_entry_of_a_map_is_a_change(
    job: InProcessJob, client: QueryableStateClient
) -> None:
    async with client.watch("sensors", "counts", keys=["sensor_1"]) as watch:
        await job.run(2, {"counts": {"sensor_1": {"x": 5, "y": None, "z": 6}}})
        await job.run(3, {"counts": {"sensor_1": None}})
        changes = await next_changes(watch, 4)
    assert [(each.batch, each.kind, each.map_key, each.old, each.new) for each in changes] == [
        (2, PUT, "x", 1, 5),
        (2, DELETE, "y", 2, None),
        (2, PUT, "z", None, 6),
        (3, CLEAR, None, None, None),
    ]


async def test_elements_of_a_list_are_appended(
    job: InProcessJob, client: QueryableStateClient
) -> None:
    async with client.watch("sensors", "seen") as watch:
        await job.run(2, {"seen": {"sensor_1": ["c", "d"]}})
        await job.run(3, {"seen": {"sensor_1": ReplaceList(["e"])}})
        changes = await next_changes(watch, 3)
    assert short(changes) == [
        (2, APPEND, "sensor_1", None, ["c", "d"]),
        (3, CLEAR, "sensor_1", None, None),
        (3, APPEND, "sensor_1", None, ["e"]),
    ]


@pytest.mark.parametrize("kind", ["maximum", "mean"])
async def test_results_of_aggregates_change(
    job: InProcessJob, client: QueryableStateClient, kind: str
) -> None:
    async with client.watch("sensors", kind) as watch:
        await job.run(2, {kind: {"sensor_1": 100}})
        [change] = await next_changes(watch, 1)
    assert change.new == 100
    assert change.old in (99, 0.5)


async def test_changes_in_windows_name_their_window(
    cluster: InProcessCluster, client: QueryableStateClient
) -> None:
    job = cluster.job("windows", windowed(declare("maxima", "string", "bigint")))
    first, second = TimeWindow(0, 10), TimeWindow(10, 20)
    await job.run(0, {"maxima": {"a": Windows({first: 1})}})
    async with client.watch("windows", "maxima", keys=["a"]) as watch:
        await job.run(1, {"maxima": {"a": Windows({first: None, second: 2})}})
        changes = await next_changes(watch, 2)
    assert [(each.window, each.kind, each.old, each.new) for each in changes] == [
        (first, DELETE, 1, None),
        (second, PUT, None, 2),
    ]


async def test_a_watch_resumes_after_a_batch(
    job: InProcessJob, client: QueryableStateClient
) -> None:
    for batch in (2, 3, 4):
        await job.run(batch, {"last": {"sensor_1": float(batch)}})
    async with client.watch("sensors", "last", keys=["sensor_1"], after_batch=2) as watch:
        changes = await next_changes(watch, 2)
        assert short(changes) == [(3, PUT, "sensor_1", 2.0, 3.0), (4, PUT, "sensor_1", 3.0, 4.0)]
        waiting = asyncio.ensure_future(anext(watch))
        await job.run(5, {"last": {"sensor_1": 5.0}})
        assert (await waiting).batch == 5
        assert watch.batch == 4


async def test_positions_of_a_watch_are_behind_what_the_caller_has_handled(
    job: InProcessJob, client: QueryableStateClient
) -> None:
    async with client.watch("sensors", "last") as watch:
        await job.run(2, {"last": {"sensor_1": 2.0, "sensor_2": 2.0}})
        await next_changes(watch, 1)
        assert watch.batch == 1
        await next_changes(watch, 1)
        assert watch.batch == 1
        waiting = asyncio.ensure_future(anext(watch))
        await asyncio.sleep(0)
        assert watch.batch == 2
        waiting.cancel()


async def test_a_cancelled_read_loses_nothing(
    job: InProcessJob, client: QueryableStateClient
) -> None:
    async with client.watch("sensors", "last", keys=["sensor_1"]) as watch:
        changes: list[Change] = []
        for batch in range(2, 8):
            waiting = asyncio.ensure_future(anext(watch))
            await asyncio.sleep(0.002 * batch)
            waiting.cancel()
            await asyncio.wait([waiting])
            # A change that arrives before it is cancelled is returned.
            changes += [] if waiting.cancelled() else [waiting.result()]
            await job.run(batch, {"last": {"sensor_1": float(batch)}})
        changes += [each async for each in _until_batch(watch, 7)]
    assert [each.batch for each in changes] == [2, 3, 4, 5, 6, 7]


async def _until_batch(watch: Watch, last: int) -> Any:
    async with asyncio.timeout(DEADLINE_S):
        async for change in watch:
            yield change
            if change.batch == last:
                return


async def test_what_cannot_be_watched_is_refused(
    cluster: InProcessCluster, client: QueryableStateClient, job: InProcessJob
) -> None:
    timed = cluster.job("timed", declare("timers", kind=registration_pb2.TIMER))
    await timed.run(0, {})
    with pytest.raises(InvalidRequestError, match="cannot be watched"):
        await client.watch("timed", "timers").open()
    with pytest.raises(InvalidRequestError, match="not both"):
        client.watch("sensors", "last", keys=["a"], prefix="b")
    with pytest.raises(InvalidRequestError, match="after_batch"):
        client.watch("sensors", "last", after_batch=-2)
    with pytest.raises(KeyTypeError):
        await client.watch("sensors", "last", keys=[7]).open()


async def test_threads_watch(job: InProcessJob, cluster: InProcessCluster) -> None:
    host, _, port = cluster.servers[0].addresses.proxy.rpartition(":")
    seen: list[Change] = []

    def watch_two() -> None:
        with (
            blocking.QueryableStateClient(host, int(port)) as client,
            client.watch("sensors", "last", keys=["sensor_1"], after_batch=1) as watch,
        ):
            seen.extend(change for _, change in zip(range(2), watch, strict=False))

    thread = asyncio.to_thread(watch_two)
    task = asyncio.ensure_future(thread)
    await job.run(2, {"last": {"sensor_1": 2.0}})
    await job.run(3, {"last": {"sensor_1": 3.0}})
    async with asyncio.timeout(DEADLINE_S):
        await task
    assert [each.new for each in seen] == [2.0, 3.0]


async def test_a_proxy_of_its_own_watches_all_owners(
    job: InProcessJob, cluster: InProcessCluster
) -> None:
    proxy = await cluster.add_proxy()
    async with client_of(proxy.address) as client, client.watch("sensors", "last") as watch:
        await job.run(2, {"last": {f"sensor_{number}": 2.0 for number in range(100)}})
        changes = await next_changes(watch, 100)
    assert len({each.key for each in changes}) == 100
