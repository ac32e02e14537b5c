"""What scans pin, wait for and let go, on stores of both backends."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from dataclasses import replace
from typing import Any

import pytest
from tests.state_server.owner import MAX_PARALLELISM, PARALLELISM, Owner, key_of
from tests.state_server.queries.scans import (
    ALL,
    CODEC,
    messages,
    refusal,
    scan_query,
    scanned,
    stored,
)

from queryable_state.server.storage.layered.store import LayeredStore
from queryable_state.v1 import query_pb2
from queryable_state.wire.errors import (
    InvalidRequestError,
    PlacementError,
    Reason,
    StateLostError,
    VersionGoneError,
)


async def test_what_is_committed_meanwhile_is_not_in_the_scan(filled: Owner) -> None:
    found: dict[str, list[bytes]] = {}
    async with aclosing(filled.engine.scan(scan_query())) as scan:
        version = 0
        async for message in scan:
            version += 1
            filled.seal(version, {**dict.fromkeys(ALL, -1), f"new{version}": 1})
            filled.commit(version)
            await filled.compact(version)
            assert message.info.version == 0
            found |= {
                CODEC.decode_all(key.key[2:]): list(key.records.values) for key in message.keys
            }
    assert found == stored(ALL)


async def test_an_older_batch_can_be_scanned_while_it_is_kept(filled: Owner) -> None:
    filled.seal(1, {"k1": -1, "new": 1})
    filled.commit(1)
    assert await scanned(filled, scan_query(at_version=0)) == stored(ALL)
    assert (await messages(filled, scan_query(at_version=0)))[0].info.version == 0
    await filled.compact(1)
    assert isinstance(await refusal(filled, scan_query(at_version=0)), VersionGoneError)
    assert (await scanned(filled, scan_query(at_version=1))).keys() == {*ALL, "new"}


async def test_sealed_state_is_scanned_where_it_is_asked_for(filled: Owner) -> None:
    filled.seal(1, {"k1": -1})
    found = await messages(filled, scan_query(consistency=query_pb2.UNCOMMITTED))
    assert (found[0].info.version, found[0].info.commit_time_ms) == (1, 0)
    values = await scanned(filled, scan_query(consistency=query_pb2.UNCOMMITTED))
    assert values == stored(ALL | {"k1": -1})


async def test_a_scan_waits_for_its_batch(filled: Owner) -> None:
    waiting = asyncio.create_task(scanned(filled, scan_query(at_version=1)))
    while not filled.waiting:  # noqa: ASYNC110 - the turn of the loop that parks
        await asyncio.sleep(0)
    filled.seal(1, {"k1": -1})
    filled.commit(1)
    assert await waiting == stored(ALL | {"k1": -1})
    late = await refusal(filled, scan_query(min_version=2, page_timeout_ms=20))
    assert late.reason == Reason.BEHIND


async def test_what_others_own_is_refused(owner: Owner) -> None:
    for subtask in (0, 1, 3):
        owner.own(subtask)
    refused = await refusal(owner, scan_query())
    assert (refused.reason, refused.placement_version) == (Reason.NOT_OWNER, 3)
    assert await scanned(owner, scan_query(last_key_group=63)) == {}


async def test_lost_state_is_refused_unless_incomplete_answers_are_allowed(owner: Owner) -> None:
    owner.own(0)
    owner.own(1, complete_since=3)
    owner.seal(0, {key_of(0): 1, key_of(1): 2})
    owner.commit(0)
    query = scan_query(last_key_group=63)
    assert isinstance(await refusal(owner, query), StateLostError)
    found = await messages(owner, replace(query, allow_incomplete=True))
    assert sum(len(message.keys) for message in found) == 2
    assert not found[-1].complete
    assert found[-1].info.complete_since_batch == 3
    assert (await messages(owner, replace(query, last_key_group=31)))[-1].complete


async def test_a_lease_that_ends_ends_the_scan(filled: Owner) -> None:
    async with aclosing(filled.engine.scan(scan_query())) as scan:
        await anext(scan)
        filled.clock.advance(11)
        with pytest.raises(PlacementError) as refused:
            await anext(scan)
    assert refused.value.reason == Reason.LEASE_EXPIRED


async def test_a_subtask_that_is_moved_ends_the_scan(filled: Owner) -> None:
    moved = list(filled.table.subtasks())[-1]
    async with aclosing(filled.engine.scan(scan_query())) as scan:
        await anext(scan)
        filled.table.remove(moved)
        await filled.background.run(moved.store.destroy)
        with pytest.raises(PlacementError) as refused:
            await anext(scan)
    assert refused.value.reason == Reason.NOT_OWNER


def pinned(owner: Owner) -> int:
    """Views that are open on the owner's stores."""
    stores = [subtask.store for subtask in owner.table.subtasks()]
    return sum(len(store._views) for store in stores if isinstance(store, LayeredStore))


async def test_a_scan_that_is_closed_lets_go_of_its_batch(filled: Owner) -> None:
    async with aclosing(filled.engine.scan(scan_query())) as scan:
        await anext(scan)
        assert pinned(filled) == PARALLELISM
    await filled.background.run(int)
    assert pinned(filled) == 0


async def test_a_scan_whose_taker_is_cancelled_lets_go_of_its_batch(filled: Owner) -> None:
    begun = asyncio.Event()

    async def take() -> None:
        async with aclosing(filled.engine.scan(scan_query())) as scan:
            async for _ in scan:
                begun.set()
                await asyncio.Event().wait()

    taker = asyncio.create_task(take())
    await begun.wait()
    taker.cancel()
    await asyncio.gather(taker, return_exceptions=True)
    await filled.background.run(int)
    assert pinned(filled) == 0


async def test_a_proxy_learns_that_the_batch_is_pinned_before_there_are_keys(
    filled: Owner,
) -> None:
    async with aclosing(filled.engine.scan(scan_query(placement_version=3))) as scan:
        first = await anext(scan)
        assert (list(first.keys), first.last, first.info.version) == ([], False, 0)
        assert pinned(filled) == PARALLELISM
        filled.seal(1, dict.fromkeys(ALL, -1))
        filled.commit(1)
        await filled.compact(1)
        found = [message async for message in scan]
    assert sum(len(message.keys) for message in found) == len(ALL)
    assert {message.info.version for message in found} == {0}


async def test_only_so_many_scans_are_open_at_once(filled: Owner) -> None:
    scans = [filled.engine.scan(scan_query()) for _ in range(64)]
    for scan in scans:
        await anext(scan)
    assert (await refusal(filled, scan_query())).reason == Reason.OVERLOADED
    await scans[0].aclose()
    await scanned(filled, scan_query())
    for scan in scans:
        await scan.aclose()


@pytest.mark.parametrize(
    "fields",
    [
        {"first_key_group": 5, "last_key_group": 4},
        {"last_key_group": MAX_PARALLELISM},
        {"after": b"\x00\x09x", "last_key_group": 8},
        {"at_version": 0, "consistency": query_pb2.UNCOMMITTED},
    ],
)
async def test_what_cannot_be_scanned_is_refused(owner: Owner, fields: dict[str, Any]) -> None:
    owner.own_all()
    assert isinstance(await refusal(owner, scan_query(**fields)), InvalidRequestError)
