"""Scans: what they read, pin, wait for and let go, on stores of both backends."""

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
    VALUES,
    ManualClock,
    Owner,
    key_of,
)
from tests.state_server.queries.scans import (
    ALL,
    CODEC,
    messages,
    refusal,
    scan_query,
    scanned,
    stored,
)

from queryable_state.server.config.limits import Limits
from queryable_state.server.query.scan_query import KeyGroupRun
from queryable_state.server.storage.key_order import prefix_end
from queryable_state.server.storage.layered.store import LayeredStore
from queryable_state.v1 import query_pb2, registration_pb2
from queryable_state.wire.errors import (
    InvalidRequestError,
    PlacementError,
    Reason,
    StateLostError,
    VersionGoneError,
)
from queryable_state.wire.keys.store_keys import (
    ACCUMULATOR_ELEMENT,
    VOID_NAMESPACE,
    list_element,
    window_namespace,
)
from queryable_state.wire.keys.time_window import TIME_WINDOW_TYPE

if TYPE_CHECKING:
    from pathlib import Path


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


async def test_runs_of_key_groups_may_be_chosen(filled: Owner) -> None:
    """From the one in which the scan goes on."""
    runs = (KeyGroupRun(3, 30), KeyGroupRun(40, 40), KeyGroupRun(90, 127))
    chosen = sorted(
        (KEYS.wire_key(key), key)
        for key in ALL
        if any(run.first <= KEYS.of(key) <= run.last for run in runs)
    )
    query = scan_query(first_key_group=3, only=runs)
    assert list(await scanned(filled, query)) == [key for _, key in chosen]
    after, _ = chosen[len(chosen) // 2]
    rest = [key for wire_key, key in chosen if wire_key > after]
    assert list(await scanned(filled, scan_query(only=runs, after=after))) == rest
    assert list(await scanned(filled, scan_query(only=runs, after=after, start=b"k1"))) == [
        key for key in rest if key >= "k1"
    ]


@pytest.mark.parametrize("limit", [700, 512])
async def test_a_limit_cuts_off_and_the_scan_goes_on_behind_its_last_key(
    filled: Owner, limit: int
) -> None:
    """In the middle of a message, and at the end of a full one."""
    found: dict[str, list[bytes]] = {}
    after, pages = b"", 0
    while True:
        query = scan_query(limit=limit, after=after)
        page = await messages(filled, query)
        found |= await scanned(filled, query)
        pages += 1
        after = page[-1].page_token
        if not after:
            break
        assert not page[-1].complete
        assert sum(len(message.keys) for message in page) == limit
    assert page[-1].complete
    assert pages == -(-len(ALL) // limit)
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
    owner.registration.namespace_type.CopyFrom(TIME_WINDOW_TYPE.to_proto())
    owner.engine.limits = Limits()
    owner.own(0)
    windows = [window_namespace(0, 10), window_namespace(10, 20)]
    counts = {key_of(0, number): number * 900 for number in range(4)}
    owner.seal_records(
        0,
        (
            (key, namespace, list_element(0, number), VALUES.encode(number))
            for key, count in counts.items()
            for namespace in windows
            for number in range(count)
        ),
    )
    owner.commit(0)
    for namespace in windows:
        query = scan_query(last_key_group=31, namespace=namespace)
        found = await scanned(owner, query)
        assert {key: len(values) for key, values in found.items()} == {
            key: count for key, count in counts.items() if count
        }
    other = scan_query(last_key_group=31, namespace=window_namespace(1, 2))
    assert await scanned(owner, other) == {}


async def test_a_key_with_more_than_fits_says_so_in_place_of_its_records(owner: Owner) -> None:
    """And those behind it come."""
    owner.registration.kind = registration_pb2.MAP
    owner.own(0)
    sizes = {key_of(0, number): size for number, size in enumerate((2, 6, 1, 60, 3))}
    owner.seal_records(
        0,
        (
            (key, VOID_NAMESPACE, bytes([i]), VALUES.encode(i))
            for key, size in sizes.items()
            for i in range(size)
        ),
    )
    owner.commit(0)
    [message] = await messages(owner, scan_query(last_key_group=31))
    assert not message.complete
    assert {
        CODEC.decode_all(each.key[2:]): each.error.reason or len(each.records.values)
        for each in message.keys
    } == {key: size if size < 6 else Reason.LIMIT_EXCEEDED for key, size in sizes.items()}
    [bare] = await messages(owner, scan_query(last_key_group=31, keys_only=True))
    assert bare.complete
    assert len(bare.keys) == len(sizes)
    assert not any(each.HasField("error") for each in bare.keys)


async def test_accumulators_and_what_has_expired_are_not_scanned(owner: Owner) -> None:
    owner.registration.kind = registration_pb2.AGGREGATING
    owner.registration.ttl.ttl_ms = 1000
    owner.own_all()
    there, expired, hidden = key_of(0), key_of(1), key_of(2)
    now_ms, ttl_ms = owner.clock.now_ms, owner.registration.ttl.ttl_ms
    owner.seal_records(
        0,
        [
            (there, VOID_NAMESPACE, b"", VALUES.encode(1, now_ms - ttl_ms + 1)),
            (there, VOID_NAMESPACE, ACCUMULATOR_ELEMENT, b"x"),
            (expired, VOID_NAMESPACE, b"", VALUES.encode(1, now_ms - ttl_ms)),
            (hidden, VOID_NAMESPACE, ACCUMULATOR_ELEMENT, b"x"),
        ],
    )
    owner.commit(0)
    assert list(await scanned(owner, scan_query())) == [there]
    assert await scanned(owner, scan_query(keys_only=True)) == {there: []}


@pytest.mark.parametrize("backend", ["heap", "rocksdb"])
@settings(
    max_examples=25,
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
    compacted = data.draw(st.integers(-1, 2))

    async def run() -> None:
        owner = Owner(backend, tmp_path / str(data.draw(st.uuids())), ManualClock(), SMALL_LIMITS)
        try:
            owner.own_all()
            held: dict[str, int] = {}
            for version, batch in enumerate(batches):
                owner.seal(version, batch)
                owner.commit(version)
                held |= batch
            await owner.compact(compacted)
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
