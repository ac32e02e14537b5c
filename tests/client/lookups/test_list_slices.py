"""Slices of lists: over owners and proxies, as frames and unary, in both clients."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from tests.client.asking import client_of, until_direct

from queryable_state.client import (
    Consistency,
    InvalidRequestError,
    ListSlice,
    Reason,
    UnknownKeyOrNamespaceError,
    blocking,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from queryable_state.client import QueryableStateClient
    from queryable_state.server.testing.cluster import InProcessCluster, InProcessJob

SEEN = ("sensors", "seen")
LETTERS = [f"letter {number}" for number in range(500)]


@pytest.fixture(params=["0", ""], ids=["frames", "unary"])
def frame_ports(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=[True, False], ids=["direct", "proxy"])
async def asker(
    request: pytest.FixtureRequest, cluster: InProcessCluster, job: InProcessJob
) -> AsyncIterator[QueryableStateClient]:
    """A client that asks owners, and one that asks a proxy, about long lists of many keys."""
    await job.run(2, {"seen": {f"list_{number}": LETTERS for number in range(20)}})
    async with client_of(cluster.servers[0].addresses.proxy, direct=request.param) as client:
        if request.param:
            await until_direct(client, cluster)
        await client.get_kv_state(*SEEN, "list_0", consistency=Consistency.at_least(2))
        yield client


@pytest.mark.parametrize(
    ("wanted", "found", "start"),
    [
        ({"limit": 3}, LETTERS[:3], 0),
        ({"start": -3}, LETTERS[-3:], 497),
        ({"start": 100, "limit": 2}, LETTERS[100:102], 100),
        ({"start": -10, "limit": 1}, LETTERS[-10:-9], 490),
        ({"start": 999}, [], 500),
        ({}, LETTERS, 0),
    ],
)
async def test_first_last_and_middle_elements_are_read_alone(
    asker: QueryableStateClient, wanted: dict[str, Any], found: list[str], start: int
) -> None:
    part = await asker.get_list_slice(*SEEN, "list_7", **wanted)
    assert isinstance(part, ListSlice)
    assert part.get() == list(part) == found
    assert (part.start, part.limit, part.length) == (start, wanted.get("limit"), 500)
    assert (len(part), part.is_empty()) == (len(found), not found)
    assert part.info.version == 2


async def test_slices_requested_together_have_each_its_own_range(
    asker: QueryableStateClient,
) -> None:
    """In one message a server, over both owners."""
    wanted = [(f"list_{number % 20}", number) for number in range(200)]
    parts = await asyncio.gather(
        *(asker.get_list_slice(*SEEN, key, start, 2) for key, start in wanted)
    )
    assert [part.get() for part in parts] == [LETTERS[n : n + 2] for _, n in wanted]


async def test_the_list_of_a_missing_key_has_no_slice(asker: QueryableStateClient) -> None:
    with pytest.raises(UnknownKeyOrNamespaceError, match="nothing is stored under key 'nobody'"):
        await asker.get_list_slice(*SEEN, "nobody", limit=1)


async def test_only_a_list_has_slices(asker: QueryableStateClient) -> None:
    with pytest.raises(InvalidRequestError, match="of kind MAP: only a LIST has slices") as refusal:
        await asker.get_list_slice("sensors", "counts", "sensor_1")
    assert refusal.value.reason == Reason.UNSUPPORTED


@pytest.mark.parametrize(
    ("wanted", "named"), [({"start": 1.5}, "start"), ({"limit": 0}, "limit"), ({"limit": -1}, "l")]
)
async def test_a_range_that_no_list_can_have_is_refused(
    client: QueryableStateClient, wanted: dict[str, Any], named: str
) -> None:
    with pytest.raises(InvalidRequestError, match=f"{named}.* must be"):
        await client.get_list_slice(*SEEN, "sensor_1", **wanted)


async def test_a_slice_shows_its_elements(client: QueryableStateClient) -> None:
    part = await client.get_list_slice(*SEEN, "sensor_1", 1)
    assert repr(part) == "<ListSlice at batch 1: ['b']>"
    with pytest.raises(InvalidRequestError, match=r"a list slice has no items\(\)"):
        part.items()
    with pytest.raises(InvalidRequestError, match="read-only"):
        part.add("c")


async def test_the_blocking_client_slices_too(cluster: InProcessCluster, job: InProcessJob) -> None:
    host, _, port = cluster.servers[0].addresses.proxy.rpartition(":")

    def read() -> tuple[list[str], int]:
        with blocking.QueryableStateClient(host, int(port)) as dashboard:
            part = dashboard.get_list_slice(*SEEN, "sensor_1", start=-1)
            return part.get(), part.length

    assert await asyncio.to_thread(read) == (["b"], 2)
