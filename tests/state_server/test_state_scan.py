"""Scans at the owner, on stores of both backends."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.state_server.owner import (
    KEYS,
    MAX_PARALLELISM,
    PARALLELISM,
    SMALL_LIMITS,
    STATE_ID,
    VALUES,
    Clock,
    Owner,
    key_of,
)

from queryable_state.server.query.scan_query import ScanQuery
from queryable_state.server.settings import Limits
from queryable_state.server.state_server.state_scan import StateScan
from queryable_state.server.storage.base import prefix_end
from queryable_state.server.storage.layered import LayeredStore
from queryable_state.v1 import query_pb2, registration_pb2
from queryable_state.wire.errors import (
    InvalidRequestError,
    LimitExceededError,
    PlacementError,
    QueryableStateError,
    Reason,
    RetryLaterError,
    StateLostError,
    VersionGoneError,
)
from queryable_state.wire.key_codec import KeyCodec
from queryable_state.wire.store_keys import (
    ACCUMULATOR_ELEMENT,
    VOID_NAMESPACE,
    list_element,
    window_namespace,
)
from queryable_state.wire.types import Types

if TYPE_CHECKING:
    from pathlib import Path

CODEC = KeyCodec(Types.STRING())
ALL = {f"k{i}": i for i in range(2000)}


def scan_query(**fields: Any) -> ScanQuery:
    return ScanQuery(
        **{
            "state_id": STATE_ID,
            "first_key_group": 0,
            "last_key_group": MAX_PARALLELISM - 1,
            "deadline_ms": 10_000,
            **fields,
        }
    )


async def messages(owner: Owner, query: ScanQuery) -> list[query_pb2.ScanKvStateResponse]:
    """All messages of a scan, checked for what holds for any."""
    async with aclosing(owner.engine.scan(query)) as scan:
        found = [message async for message in scan]
    assert [message.last for message in found] == [False] * (len(found) - 1) + [True]
    assert all(message.info == found[0].info for message in found)
    for message in found[:-1]:
        assert message.page_token == message.keys[-1].key
        assert not message.complete
    keys = [scanned.key for message in found for scanned in message.keys]
    assert keys == sorted(set(keys))
    return found


async def scanned(owner: Owner, query: ScanQuery) -> dict[str, list[bytes]]:
    """The stored values by key."""
    found = await messages(owner, query)
    return {
        CODEC.decode_all(key.key[2:]): list(key.records.values)
        for message in found
        for key in message.keys
    }


def stored(values: dict[str, int]) -> dict[str, list[bytes]]:
    return {key: [VALUES.encode(value)] for key, value in values.items()}


async def refusal(owner: Owner, query: ScanQuery) -> QueryableStateError:
    with pytest.raises(QueryableStateError) as refused:
        await messages(owner, query)
    return refused.value


@pytest.fixture
def filled(owner: Owner) -> Owner:
    owner.own_all()
    owner.seal(0, ALL)
    owner.commit(0, watermark_ms=8)
    return owner


async def test_a_scan_has_every_key_once_in_order(filled: Owner) -> None:
    found = await messages(filled, scan_query())
    assert await scanned(filled, scan_query()) == stored(ALL)
    assert len(found) >= 4
    assert found[-1].complete
    assert not found[-1].page_token
    assert (found[0].info.version, found[0].info.watermark_ms) == (0, 8)
    assert all(len(message.keys) <= 512 for message in found)


async def test_a_state_without_keys_is_one_message(owner: Owner) -> None:
    owner.own_all()
    [message] = await messages(owner, scan_query())
    assert (message.last, message.complete, len(message.keys)) == (True, True, 0)
    assert message.info.version == -1


async def test_a_message_is_closed_at_its_size(owner: Owner) -> None:
    owner.own(0)
    big = b"\x00\x01" + b"x" * 100_000
    keys = [key_of(0, number) for number in range(10)]
    owner.engine.limits = Limits()
    owner.seal_records(0, ((key, VOID_NAMESPACE, b"", big) for key in keys))
    owner.commit(0)
    found = await messages(owner, scan_query(last_key_group=31))
    assert [len(message.keys) for message in found] == [3, 3, 3, 1]


async def test_a_range_is_read_within_each_key_group(filled: Owner) -> None:
    start, end = CODEC.encode("k1000"), CODEC.encode("k12")
    wanted = {key: value for key, value in ALL.items() if "k1000" <= key < "k12"}
    assert await scanned(filled, scan_query(start=start, end=end)) == stored(wanted)
    assert await scanned(filled, scan_query(start=end, end=start)) == {}


async def test_a_prefix_is_a_range(filled: Owner) -> None:
    prefix = CODEC.encode("k77")[:-2]
    query = scan_query(start=prefix, end=prefix_end(prefix))
    wanted = {key: value for key, value in ALL.items() if key.startswith("k77")}
    assert await scanned(filled, query) == stored(wanted)


async def test_key_groups_may_be_chosen(filled: Owner) -> None:
    wanted = {key: value for key, value in ALL.items() if 30 <= KEYS.of(key) <= 70}
    query = scan_query(first_key_group=30, last_key_group=70)
    assert await scanned(filled, query) == stored(wanted)
    assert (await messages(filled, query))[-1].complete


async def test_a_limit_cuts_off_and_the_scan_goes_on_behind_its_last_key(filled: Owner) -> None:
    found: dict[str, list[bytes]] = {}
    after, pages = b"", 0
    while True:
        query = scan_query(limit=700, after=after)
        page = await messages(filled, query)
        found |= await scanned(filled, query)
        pages += 1
        after = page[-1].page_token
        if not after:
            break
        assert not page[-1].complete
        assert sum(len(message.keys) for message in page) == 700
    assert page[-1].complete
    assert pages == 3
    assert found == stored(ALL)


async def test_a_limit_that_is_the_number_of_keys_cuts_nothing_off(filled: Owner) -> None:
    found = await messages(filled, scan_query(limit=len(ALL)))
    assert found[-1].complete
    assert not found[-1].page_token


async def test_keys_may_be_had_without_their_values(filled: Owner) -> None:
    found = await messages(filled, scan_query(keys_only=True))
    keys = [key for message in found for key in message.keys]
    assert len(keys) == len(ALL)
    assert not any(key.HasField("records") for key in keys)


async def test_all_records_of_a_key_are_together(owner: Owner) -> None:
    """Also where they are many, and those of other namespaces between them."""
    owner.registration.kind = registration_pb2.LIST
    owner.engine.limits = Limits()
    owner.own(0)
    window = window_namespace(0, 10)
    counts = {key_of(0, number): number * 900 for number in range(4)}
    owner.seal_records(
        0,
        (
            (key, namespace, list_element(0, number), VALUES.encode(number))
            for key, count in counts.items()
            for namespace in (VOID_NAMESPACE, window)
            for number in range(count)
        ),
    )
    owner.commit(0)
    for namespace in (VOID_NAMESPACE, window):
        query = scan_query(last_key_group=31, namespace=namespace)
        found = await scanned(owner, query)
        assert {key: len(values) for key, values in found.items()} == {
            key: count for key, count in counts.items() if count
        }
    other = scan_query(last_key_group=31, namespace=window_namespace(1, 2))
    assert await scanned(owner, other) == {}


async def test_a_key_with_more_than_fits_is_refused_unless_keys_will_do(owner: Owner) -> None:
    owner.registration.kind = registration_pb2.MAP
    owner.own(0)
    owner.seal_records(
        0, ((key_of(0), VOID_NAMESPACE, bytes([i]), VALUES.encode(i)) for i in range(6))
    )
    owner.commit(0)
    assert isinstance(await refusal(owner, scan_query(last_key_group=31)), LimitExceededError)
    [message] = await messages(owner, scan_query(last_key_group=31, keys_only=True))
    assert len(message.keys) == 1


async def test_accumulators_and_what_has_expired_are_not_scanned(owner: Owner) -> None:
    owner.registration.kind = registration_pb2.AGGREGATING
    owner.own_all()
    there, expired, hidden = key_of(0), key_of(1), key_of(2)
    owner.seal_records(
        0,
        [
            (there, VOID_NAMESPACE, b"", VALUES.encode(1, owner.clock.now_ms + 1)),
            (there, VOID_NAMESPACE, ACCUMULATOR_ELEMENT, b"x"),
            (expired, VOID_NAMESPACE, b"", VALUES.encode(1, owner.clock.now_ms)),
            (hidden, VOID_NAMESPACE, ACCUMULATOR_ELEMENT, b"x"),
        ],
    )
    owner.commit(0)
    assert list(await scanned(owner, scan_query())) == [there]
    assert await scanned(owner, scan_query(keys_only=True)) == {there: []}


async def test_what_is_committed_meanwhile_is_not_in_the_scan(filled: Owner) -> None:
    found: dict[str, list[bytes]] = {}
    async with aclosing(filled.engine.scan(scan_query())) as scan:
        version = 0
        async for message in scan:
            version += 1
            filled.seal(version, {**dict.fromkeys(ALL, -1), f"new{version}": 1})
            filled.commit(version)
            await filled.fold(version)
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
    await filled.fold(1)
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
    while not filled.parked:  # noqa: ASYNC110 - the turn of the loop that parks
        await asyncio.sleep(0)
    filled.seal(1, {"k1": -1})
    filled.commit(1)
    assert await waiting == stored(ALL | {"k1": -1})
    late = await refusal(filled, scan_query(min_version=2, deadline_ms=20))
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
        await filled.bulk.run(moved.store.destroy)
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
    await filled.bulk.run(int)
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
    await filled.bulk.run(int)
    assert pinned(filled) == 0


async def test_a_scan_that_nobody_takes_from_lets_go_of_its_batch(filled: Owner) -> None:
    engine = filled.engine
    scan = StateScan(
        scan_query(),
        filled.table,
        engine._versions,
        filled.lease,
        filled.bulk,
        filled.limits,
        engine._scans,
        server_id="server",
        now_ms=lambda: 0,
        idle_s=0.01,
    )
    async with aclosing(scan.messages()) as taken, asyncio.timeout(20):
        await anext(taken)
        while pinned(filled):  # noqa: ASYNC110 - a timer, and then another thread
            await asyncio.sleep(0.005)
        # One message was read ahead.
        await anext(taken)
        with pytest.raises(RetryLaterError, match="nothing was taken"):
            await anext(taken)


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


@pytest.mark.parametrize("backend", ["heap", "rocksdb"])
@settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(data=st.data())
def test_any_scan_is_what_a_sorted_map_says(
    backend: str, tmp_path: Path, data: st.DataObject
) -> None:
    names = st.text("ab\x00é", max_size=4)
    batches = data.draw(st.lists(st.dictionaries(names, st.integers(0, 99)), max_size=3))
    start = data.draw(st.none() | names)
    end = data.draw(st.none() | names)
    limit = data.draw(st.integers(0, 5))
    first = data.draw(st.integers(0, MAX_PARALLELISM - 1))
    folded = data.draw(st.integers(-1, 2))

    async def run() -> None:
        owner = Owner(backend, tmp_path / str(data.draw(st.uuids())), Clock(), SMALL_LIMITS)
        try:
            owner.own_all()
            held: dict[str, int] = {}
            for version, batch in enumerate(batches):
                owner.seal(version, batch)
                owner.commit(version)
                held |= batch
            await owner.fold(folded)
            wanted = sorted(
                (KEYS.wire_key(key), value)
                for key, value in held.items()
                if KEYS.of(key) >= first
                and (start is None or key.encode() >= start.encode())
                and (end is None or key.encode() < end.encode())
            )
            found: list[tuple[bytes, int]] = []
            after = b""
            while True:
                query = scan_query(
                    first_key_group=first,
                    start=b"" if start is None else CODEC.encode(start),
                    end=None if end is None else CODEC.encode(end),
                    limit=limit,
                    after=after,
                )
                page = await messages(owner, query)
                found += [
                    (key.key, VALUES.decode(key.records.values[0]))
                    for message in page
                    for key in message.keys
                ]
                after = page[-1].page_token
                if not after:
                    break
            assert found == wanted
        finally:
            await owner.aclose()

    asyncio.run(run())
