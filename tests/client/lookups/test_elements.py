"""Entries, presence and sizes: of every kind of state, over owners and proxies."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from tests.client.asking import client_of, until_direct
from tests.client.lookups.test_lookups import count_keys

from queryable_state.client import (
    Consistency,
    InvalidRequestError,
    KeyTypeError,
    MapEntry,
    MapState,
    Reason,
    UnknownKeyOrNamespaceError,
)
from queryable_state.server.testing.changes import NULL

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from queryable_state.client import QueryableStateClient
    from queryable_state.server.testing.cluster import InProcessCluster, InProcessJob


@pytest.fixture(params=[True, False], ids=["direct", "proxy"])
async def asker(
    request: pytest.FixtureRequest, cluster: InProcessCluster, job: InProcessJob
) -> AsyncIterator[QueryableStateClient]:
    """A client that asks owners, and one that asks a proxy."""
    async with client_of(cluster.servers[0].addresses.proxy, direct=request.param) as client:
        if request.param:
            await until_direct(client, cluster)
        yield client


async def test_an_entry_is_read_without_its_map(asker: QueryableStateClient) -> None:
    entry = await asker.get_map_entry("sensors", "counts", "sensor_1", "y")
    assert isinstance(entry, MapEntry)
    assert (entry.value(), entry.info.version) == (2, 1)


async def test_a_missing_entry_is_named_with_its_key(asker: QueryableStateClient) -> None:
    for key, map_key in (("sensor_1", "z"), ("nobody", "x")):
        with pytest.raises(UnknownKeyOrNamespaceError, match=f"entry '{map_key}' of key '{key}'"):
            await asker.get_map_entry("sensors", "counts", key, map_key)


async def test_a_null_is_the_value_of_an_entry_that_is_there(
    asker: QueryableStateClient, job: InProcessJob
) -> None:
    await job.run(2, {"counts": {"sensor_1": {"n": NULL}, "nulls": {"n": NULL}}})
    read = Consistency.at_least(2)
    where = ("sensors", "counts", "sensor_1")
    entry = await asker.get_map_entry(*where, "n", consistency=read)
    assert isinstance(entry, MapEntry)
    assert entry.value() is None
    assert await asker.contains(*where, "n", consistency=read)
    assert not await asker.contains(*where, "z", consistency=read)
    whole = await asker.get_kv_state(*where, consistency=read)
    assert isinstance(whole, MapState)
    assert list(whole.items()) == [("n", None), ("x", 1), ("y", 2)]
    assert whole.contains("n")
    assert "n" in whole
    assert not whole.contains("z")
    assert (await asker.size(*where, consistency=read)).elements == 3
    [only] = await asker.multi_get("sensors", "counts", ["nulls"], consistency=read)
    assert isinstance(only.state, MapState)
    assert dict(only.state.items()) == {"n": None}
    scanned = asker.scan("sensors", "counts", consistency=read)
    assert {key: dict(found.items()) async for key, found in scanned if found is not None} == {
        "sensor_1": {"n": None, "x": 1, "y": 2},
        "nulls": {"n": None},
    }


async def test_entries_requested_together_have_each_its_own_answer(
    asker: QueryableStateClient, job: InProcessJob
) -> None:
    """Many keys and entries in one message and over both owners, hits among misses."""
    counts = {f"k{number}": {"x": number, "y": -number} for number in range(300)}
    await job.run(2, {"counts": counts})
    read = Consistency.at_least(2)
    asked = [(f"k{number}", "xyz"[number % 3], number) for number in range(300)]
    entries = await asyncio.gather(
        *(
            asker.get_map_entry("sensors", "counts", key, map_key, consistency=read)
            for key, map_key, _ in asked
        ),
        return_exceptions=True,
    )
    for (_, map_key, number), entry in zip(asked, entries, strict=True):
        if map_key == "z":
            assert isinstance(entry, UnknownKeyOrNamespaceError)
        else:
            assert isinstance(entry, MapEntry)
            assert entry.value() == (number if map_key == "x" else -number)


async def test_entries_requested_in_one_turn_travel_together(
    client: QueryableStateClient, cluster: InProcessCluster
) -> None:
    await until_direct(client, cluster)
    asked: list[int] = []
    for server in cluster.servers:
        count_keys(server.engine, asked)
    futures = [client.get_map_entry("sensors", "counts", "sensor_1", "xy"[n % 2]) for n in range(9)]
    assert [(await future).value() for future in futures] == [1, 2, 1, 2, 1, 2, 1, 2, 1]
    assert asked == [9]


async def test_entries_are_requested_before_the_state_is_known(
    cluster: InProcessCluster, job: InProcessJob
) -> None:
    """What they are is found out first; a map key of another type fails alone."""
    async with client_of(cluster.servers[0].addresses.proxy) as client:
        right = client.get_map_entry("sensors", "counts", "sensor_1", "x")
        wrong = client.get_map_entry("sensors", "counts", "sensor_1", 7)
        assert (await right).value() == 1
        with pytest.raises(KeyTypeError):
            await wrong


@pytest.mark.parametrize("state", ["last", "seen", "counts", "maximum", "mean"])
async def test_presence_is_answered_for_every_kind(asker: QueryableStateClient, state: str) -> None:
    there = await asker.contains("sensors", state, "sensor_1")
    not_there = await asker.contains("sensors", state, "nobody")
    assert there
    assert not not_there
    assert (there == True, not_there == False) == (True, True)  # noqa: E712
    assert (there.info.version, not_there.info.version) == (1, 1)
    assert there.info.server_id
    assert not_there.info.server_id


async def test_presence_of_an_entry(asker: QueryableStateClient) -> None:
    assert await asker.contains("sensors", "counts", "sensor_1", "x")
    assert not await asker.contains("sensors", "counts", "sensor_1", "z")
    assert not await asker.contains("sensors", "counts", "sensor_1", map_key="z")


async def test_sizes_count_elements_without_moving_them(
    asker: QueryableStateClient, job: InProcessJob
) -> None:
    for state, elements in (("last", 1), ("seen", 2), ("counts", 2), ("maximum", 1)):
        size = await asker.size("sensors", state, "sensor_1")
        assert (size.elements, size.info.version) == (elements, 1)
        assert size.value_bytes > 0
    await job.run(2, {"seen": {"sensor_1": ["c", "d", "e"]}})
    grown = await asker.size("sensors", "seen", "sensor_1", consistency=Consistency.at_least(2))
    assert grown.elements == 5
    with pytest.raises(UnknownKeyOrNamespaceError, match="nobody"):
        await asker.size("sensors", "seen", "nobody")


async def test_sealed_elements_are_seen_only_by_those_who_ask(
    asker: QueryableStateClient, job: InProcessJob
) -> None:
    await job.seal(2, {"counts": {"sensor_1": {"z": 3}}})
    sealed = Consistency.UNCOMMITTED
    assert not await asker.contains("sensors", "counts", "sensor_1", "z")
    assert await asker.contains("sensors", "counts", "sensor_1", "z", consistency=sealed)
    entry = await asker.get_map_entry("sensors", "counts", "sensor_1", "z", consistency=sealed)
    assert entry.value() == 3


async def test_only_maps_have_entries(asker: QueryableStateClient) -> None:
    """Told before anything is sent, and with the kind that the state is of."""
    for ask in (asker.get_map_entry, asker.contains):
        with pytest.raises(InvalidRequestError, match="kind VALUE: only a MAP") as raised:
            await ask("sensors", "last", "sensor_1", "x")
        assert raised.value.reason == Reason.UNSUPPORTED


async def test_keys_and_map_keys_of_another_type_are_refused(asker: QueryableStateClient) -> None:
    for key, map_key in ((7, "x"), ("sensor_1", 7), ("sensor_1", None)):
        with pytest.raises(KeyTypeError, match="counts"):
            await asker.get_map_entry("sensors", "counts", key, map_key)
