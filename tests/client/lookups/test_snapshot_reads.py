"""Reads of many keys as of one committed batch, over several owners."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from tests.client.asking import client_of, until_direct
from tests.waiting import eventually

from queryable_state.client import (
    Consistency,
    InvalidRequestError,
    KeyTypeError,
    QueryableStateClient,
    VersionGoneError,
)
from queryable_state.v1 import query_pb2

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from queryable_state.server.state_server.queries.state_reader import StateReader
    from queryable_state.server.testing.cluster import InProcessCluster, InProcessJob

KEYS = [f"sensor_{number}" for number in range(100)]


@pytest.fixture(params=[True, False], ids=["direct", "proxy"])
async def asker(
    request: pytest.FixtureRequest, cluster: InProcessCluster, job: InProcessJob
) -> AsyncIterator[QueryableStateClient]:
    """A client that asks owners, and one that asks a proxy."""
    async with client_of(cluster.servers[0].addresses.proxy, direct=request.param) as client:
        if request.param:
            await until_direct(client, cluster)
        yield client


async def test_servers_at_one_batch_are_queried_once(
    client: QueryableStateClient, cluster: InProcessCluster
) -> None:
    await until_direct(client, cluster)
    asked = [_queries(server.engine) for server in cluster.servers]
    states = await client.get_kv_states("sensors", "last", KEYS, one_cut=True)
    assert [state and state.value() for state in states] == list(range(100))
    assert [len(queries) for queries in asked] == [1, 1]


async def test_the_snapshot_is_the_oldest_of_the_newest_batches(
    asker: QueryableStateClient, cluster: InProcessCluster, job: InProcessJob
) -> None:
    """One server has learned of a commit, the other has not: both answer as of before it."""
    await job.seal(2, {"last": dict.fromkeys([*KEYS, "late"], 2.0)})
    _commit_on_first(cluster, job, 2)
    torn = await asker.multi_get("sensors", "last", KEYS)
    assert {info.version for info in torn.info.values()} == {1, 2}
    assert torn.version is None
    whole = await asker.multi_get("sensors", "last", [*KEYS, "late", "nobody"], one_cut=True)
    assert whole.version == 1
    assert [state.value() for _, state in whole.found()] == list(range(100))
    assert whole.missing == ["late", "nobody"]
    states = await asker.get_kv_states("sensors", "last", KEYS, one_cut=True)
    assert [state and state.value() for state in states] == list(range(100))
    await job.commit(2)
    after = await asker.multi_get("sensors", "last", KEYS, one_cut=True)
    assert (after.version, {state.value() for _, state in after.found()}) == (2, {2.0})


async def test_a_snapshot_is_at_least_as_new_as_requested(
    asker: QueryableStateClient, cluster: InProcessCluster, job: InProcessJob
) -> None:
    await job.seal(2, {"last": dict.fromkeys(KEYS, 2.0)})
    _commit_on_first(cluster, job, 2)
    pending = asker.multi_get(
        "sensors", "last", KEYS, one_cut=True, consistency=Consistency.at_least(2)
    )
    stores = cluster.servers[1].table.job(job.query_id)
    assert stores is not None
    await eventually(lambda: len(stores.waiting) > 0)
    await job.commit(2)
    result = await pending
    assert (result.version, {state.value() for _, state in result.found()}) == (2, {2.0})


async def test_snapshots_stay_whole_while_batches_commit(
    asker: QueryableStateClient, job: InProcessJob
) -> None:
    """Every batch writes one number under all keys: no answer ever has two."""
    await job.run(2, {"last": dict.fromkeys(KEYS, 2.0)})
    done = asyncio.Event()

    async def write() -> None:
        for batch in range(3, 33):
            await job.run(batch, {"last": dict.fromkeys(KEYS, float(batch))})
        done.set()

    async def read() -> None:
        newest = 2
        while not done.is_set():
            result = await asker.multi_get("sensors", "last", KEYS, one_cut=True)
            assert not result.failed
            assert result.version is not None
            assert {state.value() for _, state in result.found()} == {float(result.version)}
            assert result.version >= newest
            newest = result.version

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(write())
        for _ in range(4):
            tasks.create_task(read())


async def test_a_snapshot_that_is_compacted_is_replaced_by_a_newer_one(
    client: QueryableStateClient, cluster: InProcessCluster, job: InProcessJob
) -> None:
    """Between the two queries a server compacts the batch: the next snapshot is newer."""
    await until_direct(client, cluster)
    await job.seal(2, {"last": dict.fromkeys(KEYS, 2.0)})
    _commit_on_first(cluster, job, 2)
    refused = _refusing_older(cluster.servers[0].engine)
    pending = client.multi_get("sensors", "last", KEYS, one_cut=True)
    await eventually(lambda: bool(refused))
    await job.commit(2)
    result = await pending
    assert (result.version, len(result.found())) == (2, 100)


async def test_without_a_snapshot_in_time_only_the_keys_outside_it_fail(
    client: QueryableStateClient, cluster: InProcessCluster, job: InProcessJob
) -> None:
    await until_direct(client, cluster)
    await job.seal(2, {"last": dict.fromkeys(KEYS, 2.0)})
    _commit_on_first(cluster, job, 2)
    _refusing_older(cluster.servers[0].engine)
    result = await client.multi_get("sensors", "last", KEYS, one_cut=True, timeout_s=0.5)
    assert result.version == 1
    assert result.found()
    assert {type(error) for _, error in result.failed} == {VersionGoneError}
    with pytest.raises(VersionGoneError):
        await client.get_kv_states("sensors", "last", KEYS, one_cut=True, timeout_s=0.5)
    await job.commit(2)


async def test_snapshots_before_the_state_is_known(
    cluster: InProcessCluster, job: InProcessJob
) -> None:
    async with client_of(cluster.servers[0].addresses.proxy) as client:
        result = await client.multi_get("sensors", "last", ["sensor_1", 7], one_cut=True)
        assert (result.version, len(result.found()), len(result.failed)) == (1, 1, 1)
    async with client_of(cluster.servers[0].addresses.proxy) as client:
        with pytest.raises(KeyTypeError):
            await client.get_kv_states("sensors", "last", ["sensor_1", 7], one_cut=True)


async def test_uncommitted_values_have_no_snapshot(client: QueryableStateClient) -> None:
    for ask in (client.get_kv_states, client.multi_get):
        with pytest.raises(InvalidRequestError, match="consistent snapshot"):
            await ask("sensors", "last", KEYS, one_cut=True, consistency=Consistency.UNCOMMITTED)


def _commit_on_first(cluster: InProcessCluster, job: InProcessJob, batch: int) -> None:
    """Commits a sealed batch on the first server alone, as if the other had not heard of it yet."""
    stores = cluster.servers[0].table.job(job.query_id)
    assert stores is not None
    stores.commit(batch, 1_000 * batch, batch)


def _queries(engine: StateReader) -> list[query_pb2.Query]:
    """Notes every query that reaches an engine."""
    answer, queries = engine.answer, list[query_pb2.Query]()

    def noted(query: query_pb2.Query) -> query_pb2.Answer | None:
        queries.append(query)
        return answer(query)

    engine.answer = noted  # type: ignore[method-assign]
    return queries


def _refusing_older(engine: StateReader) -> list[query_pb2.Query]:
    """Has an engine refuse older batches, as one that has folded them; notes what it refused."""
    answer, refused = engine.answer, list[query_pb2.Query]()

    def answered(query: query_pb2.Query) -> query_pb2.Answer | None:
        if not query.HasField("at_version"):
            return answer(query)
        refused.append(query)
        error = VersionGoneError(f"batch {query.at_version} is folded away").to_proto()
        return query_pb2.Answer(id=query.id, last=True, error=error)

    engine.answer = answered  # type: ignore[method-assign]
    return refused
