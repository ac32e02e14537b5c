"""A token has one execution and one seal of a batch; another one replaces nothing."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from tests.waiting import eventually

from queryable_state.server.coordinator import JobConfig
from queryable_state.v1 import query_pb2
from queryable_state.wire.errors import JobError, Reason

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.state_server.cluster import Cluster
    from tests.state_server.gated_files import Gate


@pytest.mark.parametrize("durable", [False, True])
@pytest.mark.parametrize("second", [{}, {"other": "value"}, {"same": "rows"}])
async def test_another_seal_of_a_token_is_refused_and_the_first_stands(
    cluster: Cluster, key_of: Callable[..., str], durable: bool, second: dict[str, str]
) -> None:
    server, job = await cluster.server(), cluster.job(durable=durable)
    key = key_of(0)
    values = {key_of(0, 1) if name == "other" else key: value for name, value in second.items()}
    task = await job.begin(server, 0)
    await task.prepare({key: "first"})
    for _ in range(2):
        with pytest.raises(JobError, match=r"subtask 0/2 .*batch 0.*repartition\(\)") as refused:
            await task.prepare(values)
        assert refused.value.reason == Reason.SUBTASK_MISMATCH
    await task.prepare({key: "first"})
    await (await job.begin(server, 0, 1)).prepare({})
    await job.commit(server, 0)
    assert job.read(server, key) == ["first"]
    assert job.read(server, key_of(0, 1)) == []


async def test_two_seals_of_a_token_at_once_are_the_first_one(
    cluster: Cluster, key_of: Callable[..., str], gate: Gate
) -> None:
    """The second one comes while the changelog of the first one is being written."""
    server = await cluster.server()
    job = cluster.job(config=JobConfig(state_root=f"gated://{cluster.root}"))
    key = key_of(0)
    task = await job.begin(server, 0)
    gate.close_for("/changelog/")
    preparing = asyncio.create_task(task.prepare({key: "first"}))
    await eventually(lambda: gate.waiting == 1)
    with pytest.raises(JobError) as refused:
        await task.prepare({key: "second"})
    assert refused.value.reason == Reason.SUBTASK_MISMATCH
    gate.open()
    await preparing
    assert job.read(server, key, consistency=query_pb2.UNCOMMITTED) == ["first"]


async def test_a_second_execution_in_one_task_attempt_is_refused_before_it_writes(
    cluster: Cluster, key_of: Callable[..., str]
) -> None:
    server, job = await cluster.server(), cluster.job()
    first = await job.begin(server, 0, attempt=7)
    await first.begin()
    second = job.attempt(server, 0, attempt=7)
    second.execution = 2
    with pytest.raises(JobError, match=r"task attempt 7 .*second time.*coalesce") as refused:
        await second.begin()
    assert refused.value.reason == Reason.SUBTASK_MISMATCH
    await first.prepare({key_of(0): "first"})
    assert job.read(server, key_of(0), consistency=query_pb2.UNCOMMITTED) == ["first"]


async def test_a_new_owner_knows_the_seals_of_the_one_before(
    cluster: Cluster, key_of: Callable[..., str]
) -> None:
    """The attempt runs again where what it sealed has been restored as staged."""
    server, job = await cluster.server("e1"), cluster.job(durable=True)
    key = key_of(0)
    await (await job.begin(server, 0, attempt=7)).prepare({key: "first"})
    await server.aclose()
    server = await cluster.server("e2")
    again = await job.begin(server, 0, attempt=7)
    assert again.begun.sealed_before
    with pytest.raises(JobError) as refused:
        await again.prepare({key: "second"})
    assert refused.value.reason == Reason.SUBTASK_MISMATCH
    await again.prepare({key: "first"})
    assert job.read(server, key, consistency=query_pb2.UNCOMMITTED) == ["first"]
