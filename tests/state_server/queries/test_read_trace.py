"""The steps of an owner for a query with `explain`."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from tests.state_server.owner import VALUES, key_of

from queryable_state.v1 import query_pb2
from queryable_state.wire.errors import Reason

if TYPE_CHECKING:
    from tests.state_server.owner import Owner

KEY = key_of(1)


async def explain(owner: Owner, **fields: object) -> query_pb2.Answer:
    query = owner.query(KEY, explain=True, **fields)
    assert owner.engine.answer(query) is None
    return await owner.engine.answer_later(query)


def names(answer: query_pb2.Answer) -> list[str]:
    return [step.name for step in answer.trace.steps]


async def test_a_read_says_where_its_key_is_and_what_was_read(owner: Owner) -> None:
    owner.own_all()
    owner.seal(4, {KEY: 9})
    owner.commit(4)
    answer = await explain(owner)
    assert [VALUES.decode(value) for value in answer.values] == [9]
    trace = answer.trace
    assert (trace.subtask, trace.operator_uid) == (1, "op")
    assert trace.key_group == int.from_bytes(owner.query(KEY).keys[0][:2], "big")
    assert (trace.owner_id, trace.placement_version) == ("server", 3)
    [step] = trace.steps
    assert (step.name, step.server_id, step.role) == ("read", "server", query_pb2.OWNER)
    assert step.detail == f"1 record, {len(answer.values[0])} bytes as of batch 4"


async def test_waiting_is_a_step(owner: Owner) -> None:
    owner.own_all()
    asked = asyncio.ensure_future(explain(owner, min_version=1))
    while not owner.waiting:  # noqa: ASYNC110 - the turn of the loop that parks
        await asyncio.sleep(0)
    owner.seal(1, {KEY: 2})
    owner.commit(1)
    answer = await asked
    assert names(answer) == ["wait", "read"]
    wait, read = answer.trace.steps
    assert wait.begun_us + wait.took_us <= read.begun_us + 1


async def test_an_older_batch_and_a_missing_key_are_said_in_words(owner: Owner) -> None:
    owner.own_all()
    for version in range(2):
        owner.seal(version, {KEY: version})
        owner.commit(version)
    older = await explain(owner, at_version=0)
    assert older.trace.steps[0].detail.endswith("as of batch 0")
    missing = await explain(owner, at_version=-1)
    assert missing.trace.steps[0].detail == "nothing is stored there as of batch -1"


async def test_a_refusal_is_a_step_and_stands_in_the_answer(owner: Owner) -> None:
    refused = await explain(owner)
    assert names(refused) == ["refuse"]
    assert refused.error.reason == Reason.NOT_OWNER
    assert not refused.trace.owner_id
    owner.own(0)
    elsewhere = await explain(owner)
    assert elsewhere.failed[0].error.reason == Reason.NOT_OWNER
    assert not elsewhere.trace.owner_id
