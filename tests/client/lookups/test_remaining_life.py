"""States with a TTL: what is expired is not answered, and every answer has the remaining life."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.client.asking import client_of

from queryable_state.client import ListState, MapState, UnknownKeyOrNamespaceError
from queryable_state.server.testing.cluster import declare
from queryable_state.v1 import registration_pb2

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from queryable_state.client import QueryableStateClient
    from queryable_state.server.testing.cluster import InProcessCluster, InProcessJob

HOUR_MS = 3_600_000
KEYS = [f"sensor_{number}" for number in range(8)]


@pytest.fixture(params=["0", ""], ids=["frames", "unary"])
def frame_ports(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
async def job(cluster: InProcessCluster) -> InProcessJob:
    """The first two keys have half an hour to live; all values of the others are expired."""
    kind = registration_pb2.StateKind
    started = cluster.job(
        "sensors",
        declare("last", ttl_ms=HOUR_MS),
        declare("forever"),
        declare("seen", kind=kind.LIST, ttl_ms=HOUR_MS),
        declare("counts", kind=kind.MAP, map_key_type="string", ttl_ms=HOUR_MS),
    )
    now_ms = started.updated_ms
    started.updated_ms = now_ms - 2 * HOUR_MS
    everything = {key: number for number, key in enumerate(KEYS)}
    await started.run(
        0,
        {
            "last": everything,
            "forever": everything,
            "seen": {key: [1, 2] for key in KEYS},
            "counts": {key: {"old": 1} for key in KEYS},
        },
    )
    started.updated_ms = now_ms - HOUR_MS // 2
    live = KEYS[:2]
    await started.run(
        1,
        {
            "last": dict.fromkeys(live, 10),
            "seen": {key: [3] for key in live},
            "counts": {key: {"new": 2} for key in live},
        },
    )
    return started


@pytest.fixture(params=[True, False], ids=["direct", "proxy"])
async def asker(
    request: pytest.FixtureRequest, cluster: InProcessCluster, job: InProcessJob
) -> AsyncIterator[QueryableStateClient]:
    proxy = cluster.servers[0].addresses.proxy
    async with client_of(proxy, direct=request.param) as client:
        yield client


def is_half_an_hour(ttl_ms: int | None) -> bool:
    """The servers' clocks have moved since the test wrote."""
    return ttl_ms is not None and HOUR_MS // 2 - 600_000 < ttl_ms <= HOUR_MS // 2


async def test_an_expired_value_is_missing_and_a_live_one_says_for_how_long(
    asker: QueryableStateClient, job: InProcessJob
) -> None:
    found = await asker.get_kv_state("sensors", "last", KEYS[0])
    assert found.value() == 10
    assert is_half_an_hour(found.remaining_ms)
    assert found.expires_at_ms == job.updated_ms + HOUR_MS
    assert (found.info.ttl_ms, found.info.read_time_ms) == (
        HOUR_MS,
        job.updated_ms + HOUR_MS - (found.remaining_ms or 0),
    )
    with pytest.raises(UnknownKeyOrNamespaceError):
        await asker.get_kv_state("sensors", "last", KEYS[2])
    results = await asker.multi_get("sensors", "last", KEYS)
    assert [key for key, _ in results.found()] == KEYS[:2]
    assert all(is_half_an_hour(state.remaining_ms) for _, state in results.found())


async def test_a_state_without_a_ttl_does_not_expire(asker: QueryableStateClient) -> None:
    found = await asker.get_kv_state("sensors", "forever", KEYS[0])
    assert (found.remaining_ms, found.expires_at_ms, found.info.read_time_ms) == (None, None, 0)


async def test_elements_expire_each_on_its_own(asker: QueryableStateClient) -> None:
    seen = await asker.get_kv_state("sensors", "seen", KEYS[0])
    assert isinstance(seen, ListState)
    assert seen.get() == [3]
    assert is_half_an_hour(seen.remaining_ms)
    assert [is_half_an_hour(ttl_ms) for ttl_ms in seen.element_remaining_ms()] == [True]
    some = await asker.get_list_slice("sensors", "seen", KEYS[0], 0, 2)
    assert (some.get(), some.length, is_half_an_hour(some.remaining_ms)) == ([3], 1, True)
    assert len(some.element_remaining_ms()) == 1
    counts = await asker.get_kv_state("sensors", "counts", KEYS[0])
    assert isinstance(counts, MapState)
    assert dict(counts.items()) == {"new": 2}
    assert {key: is_half_an_hour(ttl) for key, ttl in counts.element_remaining_ms().items()} == {
        "new": True
    }
    for state_name in ("seen", "counts"):
        with pytest.raises(UnknownKeyOrNamespaceError):
            await asker.get_kv_state("sensors", state_name, KEYS[2])


async def test_entries_presence_and_sizes_have_a_remaining_life(
    asker: QueryableStateClient,
) -> None:
    entry = await asker.get_map_entry("sensors", "counts", KEYS[0], "new")
    assert is_half_an_hour(entry.remaining_ms)
    with pytest.raises(UnknownKeyOrNamespaceError):
        await asker.get_map_entry("sensors", "counts", KEYS[0], "old")
    size = await asker.size("sensors", "counts", KEYS[0])
    assert (size.elements, is_half_an_hour(size.remaining_ms)) == (1, True)
    there = await asker.contains("sensors", "counts", KEYS[0], "new")
    assert (bool(there), is_half_an_hour(there.remaining_ms)) == (True, True)
    assert is_half_an_hour((await asker.contains("sensors", "last", KEYS[1])).remaining_ms)
    gone = await asker.contains("sensors", "last", KEYS[2])
    assert (bool(gone), gone.remaining_ms) == (False, None)


async def test_a_scan_leaves_out_what_is_expired(asker: QueryableStateClient) -> None:
    async with asker.scan("sensors", "last") as scan:
        found = {key: state async for key, state in scan}
    assert sorted(found) == KEYS[:2]
    assert all(
        state is not None and is_half_an_hour(state.remaining_ms) for state in found.values()
    )
    async with asker.scan("sensors", "counts", keys_only=True) as scan:
        assert sorted([key async for key, _ in scan]) == KEYS[:2]


async def test_the_listing_of_states_has_their_ttl(asker: QueryableStateClient) -> None:
    states = await asker.list_states("sensors")
    assert {state.state_name: state.ttl_ms for state in states} == {
        "counts": HOUR_MS,
        "forever": 0,
        "last": HOUR_MS,
        "seen": HOUR_MS,
    }
