"""How an owner says it answered."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from tests.state_server.owner import STATE_ID, VALUES, key_of

from queryable_state.v1 import query_pb2
from queryable_state.wire.errors import Reason

if TYPE_CHECKING:
    from tests.state_server.owner import Owner

    from queryable_state.server.query.explained import Explained

KEY = key_of(1)


async def explain(owner: Owner, **fields: object) -> Explained:
    return await owner.engine.explain(owner.query(KEY, **fields), time.perf_counter_ns())


def names(explained: Explained) -> list[str]:
    return [step.name for step in explained.explanation.steps]


async def test_a_read_says_where_its_key_is_and_what_was_read(owner: Owner) -> None:
    owner.own_all()
    owner.seal(4, {KEY: 9})
    owner.commit(4)
    explained = await explain(owner)
    [answer] = explained.answers
    assert [VALUES.decode(value) for value in answer.values] == [9]
    where = explained.explanation
    assert (where.state_id, where.subtask, where.operator_uid) == (STATE_ID, 1, "op")
    assert where.encoded_key == owner.query(KEY).keys[0]
    assert where.key_group == int.from_bytes(where.encoded_key[:2], "big")
    assert (where.owner_id, where.placement_version) == ("server", 3)
    [step] = where.steps
    assert (step.name, step.server_id, step.role) == ("read", "server", query_pb2.OWNER)
    assert step.detail == f"1 record, {len(answer.values[0])} bytes as of batch 4"


async def test_waiting_is_a_step(owner: Owner) -> None:
    owner.own_all()
    asked = asyncio.ensure_future(explain(owner, min_version=1))
    while not owner.waiting:  # noqa: ASYNC110 - the turn of the loop that parks
        await asyncio.sleep(0)
    owner.seal(1, {KEY: 2})
    owner.commit(1)
    explained = await asked
    assert names(explained) == ["wait", "read"]
    wait, read = explained.explanation.steps
    assert wait.begun_us + wait.took_us <= read.begun_us + 1


async def test_an_older_batch_and_a_missing_key_are_said_in_words(owner: Owner) -> None:
    owner.own_all()
    for version in range(2):
        owner.seal(version, {KEY: version})
        owner.commit(version)
    older = await explain(owner, at_version=0)
    assert older.explanation.steps[0].detail.endswith("as of batch 0")
    missing = await explain(owner, at_version=-1)
    assert missing.explanation.steps[0].detail == "nothing is stored there as of batch -1"


async def test_a_refusal_is_a_step_and_stands_in_the_answer(owner: Owner) -> None:
    explained = await explain(owner)
    assert names(explained) == ["refuse"]
    assert explained.answers[0].error.reason == Reason.NOT_OWNER
    assert not explained.explanation.owner_id
    owner.own(0)
    elsewhere = await explain(owner)
    assert elsewhere.answers[0].failed[0].error.reason == Reason.NOT_OWNER
    assert not elsewhere.explanation.owner_id
