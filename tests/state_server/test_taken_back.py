"""Queries for a batch that the job has gone back behind: refused by name, and never waited for."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from tests.state_server.owner import key_of
from tests.state_server.queries.scans import refusal, scan_query
from tests.waiting import eventually

from queryable_state.internal.v1.checkpoint_pb2 import EndedTimeline, Timeline
from queryable_state.v1 import query_pb2
from queryable_state.wire.errors import Reason, VersionGoneError

if TYPE_CHECKING:
    from tests.state_server.owner import Owner

KEY = key_of(0)
FIRST, SECOND, NOW = 11, 22, 33


@pytest.fixture
def owner(owner: Owner) -> Owner:
    """At batch 2 after two ways back: from batch 9 to before 5, and from batch 7 to before 3."""
    owner.own_all()
    owner.table.job_or_new(owner.registration.job_id).use(
        Timeline(
            id=NOW,
            ended=[
                EndedTimeline(id=FIRST, first_batch=5, last_batch=9, ended_at_ms=1_700_000_000_000),
                EndedTimeline(
                    id=SECOND, first_batch=3, last_batch=7, ended_at_ms=1_700_000_060_000
                ),
            ],
        )
    )
    for batch in range(3):
        owner.seal(batch, {KEY: batch})
        owner.commit(batch)
    return owner


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"min_version": 3}, r"batch 3 or later of state 'last' was taken back: at 2023.*:20Z job"),
        ({"at_version": 4}, r"batch 4 of state .* set back from batch 7, and began again at 3"),
        ({"min_version": 9}, r"set back from batch 9, .* at 5\. It is at batch 2 now"),
        ({"min_version": 3, "timeline": SECOND}, "set back from batch 7"),
        ({"min_version": 3, "timeline": FIRST}, "set back from batch 7"),
        ({"min_version": 2, "timeline": 44}, "another job, or from an earlier start"),
    ],
)
async def test_a_batch_that_was_taken_back_is_refused_at_once(
    owner: Owner, fields: dict[str, int], text: str
) -> None:
    answer = owner.ask(KEY, **fields)
    assert answer.error.reason == Reason.VERSION_GONE
    with pytest.raises(VersionGoneError, match=text):
        raise await refusal(owner, scan_query(**fields))
    assert "without at_least" in answer.error.message


@pytest.mark.parametrize(
    "fields",
    [
        {"min_version": 2},
        {"min_version": 2, "timeline": FIRST},
        {"at_version": 2, "timeline": SECOND},
        {"max_staleness_ms": 10_000},
        {"timeline": NOW, "min_version": 2},
    ],
)
async def test_a_batch_before_the_way_back_is_answered(owner: Owner, fields: Any) -> None:
    assert owner.ask(KEY, **fields).info.timeline == NOW


@pytest.mark.parametrize(
    "fields",
    [
        {"min_version": 3, "timeline": NOW},
        {"at_version": 3, "timeline": NOW},
        {"min_version": 10},
    ],
)
async def test_a_batch_of_this_timeline_is_waited_for(owner: Owner, fields: Any) -> None:
    answer = await owner.ask_later(KEY, deadline_ms=20, **fields)
    assert answer.error.reason == Reason.BEHIND


async def test_the_new_batch_of_a_number_is_waited_for_once_it_is_sealed(owner: Owner) -> None:
    """A reader of its own writes has only the number, and that batch is about to be committed."""
    owner.seal(3, {KEY: 33})
    waiting = asyncio.create_task(owner.ask_later(KEY, min_version=3))
    await eventually(lambda: len(owner.waiting) > 0)
    owner.commit(3)
    assert (await waiting).info.version == 3


async def test_a_batch_that_was_seen_before_is_refused_also_once_its_number_is_there(
    owner: Owner,
) -> None:
    owner.seal(3, {KEY: 33})
    owner.commit(3)
    assert owner.ask(KEY, min_version=3).info.version == 3
    for timeline in (FIRST, SECOND):
        answer = owner.ask(KEY, min_version=3, timeline=timeline)
        assert answer.error.reason == Reason.VERSION_GONE


async def test_a_state_without_a_batch_is_read_within_any_age(owner: Owner) -> None:
    """`within` names no batch, so that none of it can be taken back."""
    job = owner.table.job_or_new(owner.registration.job_id)
    job.use(Timeline(id=NOW, ended=[EndedTimeline(id=FIRST, first_batch=0, last_batch=9)]))
    assert owner.ask(KEY, max_staleness_ms=10_000).info.version == 2


async def test_a_checkpoint_does_not_know_the_timelines_after_it(owner: Owner) -> None:
    job = owner.table.job_or_new(owner.registration.job_id)
    job.info.role = query_pb2.CHECKPOINT
    assert owner.ask(KEY, min_version=2, timeline=44).info.version == 2
    assert owner.ask(KEY, min_version=3, timeline=FIRST).error.reason == Reason.VERSION_GONE
