"""Reads as of an older batch, on stores of both backends."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from tests.state_server.owner import PARALLELISM, VALUES, key_of

from queryable_state.v1 import query_pb2, registration_pb2
from queryable_state.wire.errors import Reason
from queryable_state.wire.keys.store_keys import VOID_NAMESPACE

if TYPE_CHECKING:
    from tests.state_server.owner import Owner

KEYS_OF_ALL = [key_of(subtask) for subtask in range(PARALLELISM)]


def values(answer: query_pb2.Answer) -> list[int]:
    return [VALUES.decode(value) for value in answer.values]


def commit(owner: Owner, version: int, value: int, *, watermark_ms: int = 0) -> None:
    owner.seal(version, dict.fromkeys(KEYS_OF_ALL, value))
    owner.commit(version, watermark_ms)


async def test_every_batch_kept_is_answered_as_it_was(owner: Owner) -> None:
    owner.own_all()
    times = []
    for version in range(3):
        owner.clock.advance(1)
        times.append(owner.clock.now_ms)
        commit(owner, version, 10 + version, watermark_ms=version + 1)
    assert values(owner.ask(*KEYS_OF_ALL, at_version=2)) == [12] * PARALLELISM
    for version in range(2):
        answer = await owner.ask_later(*KEYS_OF_ALL, "absent", at_version=version)
        assert values(answer) == [10 + version] * PARALLELISM
        assert list(answer.missing) == [PARALLELISM]
        info = answer.info
        assert (info.version, info.commit_time_ms) == (version, times[version])
        assert (info.watermark_ms, info.server_id) == (version + 1, "server")
    before = await owner.ask_later(*KEYS_OF_ALL, at_version=-1)
    assert len(before.missing) == PARALLELISM
    assert (before.info.version, before.info.commit_time_ms) == (-1, 0)


async def test_a_batch_that_is_folded_away_is_gone(owner: Owner) -> None:
    owner.own_all()
    for version in range(3):
        commit(owner, version, version)
    await owner.compact(1)
    gone = await owner.ask_later(*KEYS_OF_ALL, at_version=0)
    assert gone.error.reason == Reason.VERSION_GONE
    assert values(await owner.ask_later(*KEYS_OF_ALL, at_version=1)) == [1] * PARALLELISM


async def test_a_batch_being_read_is_not_folded_beneath_it(owner: Owner) -> None:
    """Handed over before the folds, read before them."""
    owner.own_all()
    for version in range(2):
        commit(owner, version, version)
    asked = asyncio.ensure_future(owner.ask_later(*KEYS_OF_ALL, at_version=0))
    await asyncio.sleep(0)
    await owner.compact(1)
    assert values(await asked) == [0] * PARALLELISM


@pytest.mark.parametrize("read", [query_pb2.PREFIX, query_pb2.EXISTS, query_pb2.SIZE])
async def test_every_kind_of_read_is_of_the_older_batch(
    owner: Owner, read: query_pb2.ReadKind.ValueType
) -> None:
    owner.registration.kind = registration_pb2.MAP
    owner.own_all()
    key = KEYS_OF_ALL[0]
    entries = [(key, VOID_NAMESPACE, bytes([i]), VALUES.encode(i)) for i in range(2)]
    owner.seal_records(0, entries[:1])
    owner.commit(0)
    owner.seal_records(1, entries)
    owner.commit(1)
    [now] = owner.ask(key, read=read).values
    [then] = (await owner.ask_later(key, read=read, at_version=0)).values
    assert (await owner.ask_later(key, read=read, at_version=-1)).missing == [0]
    if read == query_pb2.SIZE:
        assert query_pb2.Size.FromString(then).elements == 1
        assert query_pb2.Size.FromString(now).elements == 2
    if read == query_pb2.PREFIX:
        assert len(query_pb2.Records.FromString(then).values) == 1
    entry = {"read": query_pb2.ENTRY, "elements": [b"\x01"], "at_version": 0}
    assert (await owner.ask_later(key, **entry)).missing == [0]


async def test_ranges_of_others_and_lost_ones_fail_as_in_any_answer(owner: Owner) -> None:
    owner.own(0)
    owner.own(1, complete_since=1)
    for version in range(2):
        commit(owner, version, version)
    answer = await owner.ask_later(*KEYS_OF_ALL[:3], at_version=0)
    assert values(answer) == [0]
    assert {failed.error.reason: list(failed.indexes) for failed in answer.failed} == {
        Reason.STATE_LOST: [1],
        Reason.NOT_OWNER: [2],
    }
    allowed = await owner.ask_later(*KEYS_OF_ALL[:2], at_version=0, allow_incomplete=True)
    assert (values(allowed), allowed.info.complete_since_batch) == ([0, 0], 1)


async def test_without_a_lease_an_older_batch_is_not_answered_either(owner: Owner) -> None:
    owner.own_all()
    for version in range(2):
        commit(owner, version, version)
    query = owner.query(*KEYS_OF_ALL, at_version=0)
    assert owner.engine.answer(query) is None
    asked = asyncio.ensure_future(owner.engine.answer_later(query))
    await asyncio.sleep(0)
    owner.clock.advance(11)
    assert (await asked).error.reason == Reason.LEASE_EXPIRED


async def test_an_older_batch_of_a_store_that_leaves_is_still_read(owner: Owner) -> None:
    """The store is closed behind the jobs that read it."""
    owned = owner.own(0)
    for version in range(2):
        commit(owner, version, version)
    asked = asyncio.ensure_future(owner.ask_later(KEYS_OF_ALL[0], at_version=0))
    await asyncio.sleep(0)
    owner.table.remove(owned)
    await owner.background.run(owned.store.destroy)
    assert values(await asked) == [0]
