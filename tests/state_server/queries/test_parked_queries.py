"""Queries that wait for a commit."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from tests.state_server.owner import VALUES, key_of
from tests.waiting import DEADLINE_S

from queryable_state.server.state_server.stores.job_stores import WaitingQueries
from queryable_state.v1 import query_pb2
from queryable_state.wire.errors import Reason

if TYPE_CHECKING:
    from tests.state_server.owner import Owner

KEY = key_of(0)


def values(answer: query_pb2.Answer) -> list[int]:
    return [VALUES.decode(value) for value in answer.values]


async def begin_waiting(owner: Owner, **fields: object) -> asyncio.Task[query_pb2.Answer]:
    """A query that waits by now."""
    before = len(owner.waiting)
    task = asyncio.create_task(owner.ask_later(KEY, **fields))
    async with asyncio.timeout(DEADLINE_S):
        while len(owner.waiting) == before:  # noqa: ASYNC110 - the turn of the loop that parks
            await asyncio.sleep(0)
    return task


async def answered(task: asyncio.Task[query_pb2.Answer]) -> query_pb2.Answer:
    async with asyncio.timeout(DEADLINE_S):
        return await task


@pytest.mark.parametrize("fields", [{"min_version": 2}, {"at_version": 2}])
async def test_a_query_waits_for_its_batch(owner: Owner, fields: dict[str, int]) -> None:
    owner.own_all()
    owner.seal(0, {KEY: 0})
    owner.commit(0)
    waiting = await begin_waiting(owner, **fields)
    owner.seal(1, {KEY: 1})
    owner.commit(1)
    assert len(owner.waiting) == 1
    owner.seal(2, {KEY: 2})
    owner.commit(2)
    answer = await answered(waiting)
    assert (values(answer), answer.info.version, answer.id) == ([2], 2, 5)
    assert not owner.waiting


async def test_a_query_waits_for_a_fresh_commit(owner: Owner) -> None:
    owner.own_all()
    owner.seal(0, {KEY: 0})
    owner.commit(0)
    owner.clock.advance(2)
    assert values(owner.ask(KEY, max_staleness_ms=2000)) == [0]
    waiting = await begin_waiting(owner, max_staleness_ms=500)
    owner.commit(1)
    answer = await answered(waiting)
    assert (values(answer), answer.info.version) == ([0], 1)


async def test_a_first_batch_is_waited_for(owner: Owner) -> None:
    owner.own_all()
    waiting = await begin_waiting(owner, at_version=0)
    owner.seal(0, {KEY: 5})
    owner.commit(0)
    assert values(await answered(waiting)) == [5]


async def test_a_batch_that_was_jumped_over_is_answered_as_of_itself(owner: Owner) -> None:
    owner.own_all()
    owner.seal(0, {KEY: 0})
    owner.commit(0)
    waiting = await begin_waiting(owner, at_version=1)
    owner.seal(2, {KEY: 2})
    owner.commit(2)
    answer = await answered(waiting)
    assert (values(answer), answer.info.version) == ([0], 1)


async def test_what_waited_in_vain_is_refused_as_behind_before_its_time_is_over(
    owner: Owner,
) -> None:
    owner.own_all()
    loop = asyncio.get_running_loop()
    begun = loop.time()
    for fields in ({"min_version": 7}, {"at_version": 7}, {"max_staleness_ms": 1}):
        answer = await owner.ask_later(KEY, deadline_ms=50, **fields)
        assert answer.error.reason == Reason.BEHIND
        assert answer.error.retry_after_ms > 0
        assert answer.last
    assert loop.time() - begun >= 3 * 0.045
    assert not owner.waiting


async def test_what_waits_goes_elsewhere_with_its_subtask(owner: Owner) -> None:
    owned = owner.own(0)
    waiting = await begin_waiting(owner, min_version=1)
    owner.table.remove(owned)
    assert (await answered(waiting)).error.reason == Reason.NOT_OWNER
    await owner.background.run(owned.store.destroy)


async def test_what_waits_is_refused_when_the_lease_ends(owner: Owner) -> None:
    owner.own_all()
    waiting = await begin_waiting(owner, min_version=1)
    owner.lease.end()
    owner.table.wake_waiting()
    assert (await answered(waiting)).error.reason == Reason.LEASE_EXPIRED


async def test_nothing_is_left_of_a_query_nobody_waits_for(owner: Owner) -> None:
    owner.own_all()
    waiting = await begin_waiting(owner, min_version=1)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    assert not owner.waiting


async def test_contradictions_are_refused_at_once(owner: Owner) -> None:
    owner.own_all()
    for fields in (
        {"at_version": 3, "min_version": 4},
        {"at_version": 3, "consistency": query_pb2.UNCOMMITTED},
    ):
        assert owner.ask(KEY, **fields).error.reason == Reason.INVALID_REQUEST


async def test_a_sealed_batch_is_there_for_uncommitted_reads(owner: Owner) -> None:
    owner.own_all()
    owner.seal(0, {KEY: 1})
    owner.commit(0)
    owner.seal(1, {KEY: 2})
    answer = owner.ask(KEY, min_version=1, consistency=query_pb2.UNCOMMITTED)
    assert (values(answer), answer.info.version) == ([2], 1)


async def test_only_those_are_woken_whose_batch_is_there() -> None:
    begin_waiting = WaitingQueries()
    early = asyncio.create_task(begin_waiting.park(1, DEADLINE_S))
    late = asyncio.create_task(begin_waiting.park(2, DEADLINE_S))
    while len(begin_waiting) < 2:  # noqa: ASYNC110 - the turn of the loop that parks
        await asyncio.sleep(0)
    begin_waiting.committed(1)
    await early
    assert not late.done()
    assert len(begin_waiting) == 1
    begin_waiting.wake()
    await late
    assert not begin_waiting
