"""Pages of a scan, and the tokens that go on behind them."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from tests.client.asking import client_of
from tests.waiting import eventually

from queryable_state.client import (
    ClientClosedError,
    Consistency,
    InvalidRequestError,
    VersionGoneError,
)

if TYPE_CHECKING:
    from queryable_state.client import QueryableStateClient
    from queryable_state.server.testing.cluster import InProcessCluster, InProcessJob

from tests.client.scans.values import ALL, rest_of, value


async def test_pages_by_token_have_every_key_once(
    client: QueryableStateClient, job: InProcessJob
) -> None:
    """As of the first page's batch, though another one commits in between."""
    seen: dict[str, float] = {}
    token, pages = b"", 0
    while True:
        scan = client.scan("sensors", "last", limit=30, page_token=token)
        page = {key: value(state) async for key, state in scan}
        assert not seen.keys() & page.keys()
        seen |= page
        assert scan.info is not None
        assert scan.info.version == 1
        token, pages = scan.page_token, pages + 1
        if not token:
            break
        assert len(page) == 30
        if pages == 1:
            await job.run(2, {"last": dict.fromkeys(ALL, -1.0)})
    assert seen == ALL
    assert pages == 4


async def test_pages_are_never_empty_and_say_where_they_go_on(
    client: QueryableStateClient, job: InProcessJob
) -> None:
    await job.run(2, {"last": {f"key_{number}": 1.0 for number in range(5000)}})
    scan = client.scan("sensors", "last", prefix="key_")
    sizes = []
    async for page in scan.pages():
        sizes.append(len(page))
        if len(sizes) == 2:
            break
    token = scan.page_token
    await scan.aclose()
    rest = client.scan("sensors", "last", prefix="key_", page_token=token)
    left = [key async for key, _ in rest]
    assert all(sizes)
    assert sum(sizes) + len(set(left)) == 5000


async def test_a_token_of_another_scan_is_refused(client: QueryableStateClient) -> None:
    scan = client.scan("sensors", "last", limit=10)
    assert len([key async for key, _ in scan]) == 10
    for other in (
        client.scan("sensors", "last", page_token=scan.page_token, prefix="x"),
        client.scan("sensors", "maximum", page_token=scan.page_token),
        client.scan("sensors", "last", page_token=scan.page_token[:-1]),
        client.scan("sensors", "last", page_token=b"no token"),
    ):
        with pytest.raises(InvalidRequestError, match="page token"):
            await anext(other)


async def test_the_time_of_a_scan_is_that_of_a_page(
    client: QueryableStateClient, job: InProcessJob
) -> None:
    """Who takes long over the keys may, also where the batch had to be waited for."""
    await job.run(2, {"last": {f"key_{number}": 1.0 for number in range(5000)}})
    loop = asyncio.get_running_loop()
    for consistency in (Consistency.COMMITTED, Consistency.at_least(2)):
        scan = client.scan("sensors", "last", prefix="key_", consistency=consistency, timeout_s=0.5)
        begun = loop.time()
        keys: list[str] = []
        async for page in scan.pages():
            keys.extend(key for key, _ in page)
            if len(keys) < 1500:
                await eventually(lambda at=begun: loop.time() - at > 0.6)  # type: ignore[misc]
        assert len(set(keys)) == len(keys) == 5000


async def test_a_scan_goes_on_where_a_proxy_left_it(
    cluster: InProcessCluster, job: InProcessJob
) -> None:
    """Another one on its port continues, as of the same batch."""
    keys = {f"key_{number:05}": float(number) for number in range(20_000)}
    await job.run(2, {"last": keys})
    proxy = await cluster.add_proxy()
    port = proxy.address.rpartition(":")[2]
    async with client_of(proxy.address, direct=False) as client:
        scan = client.scan("sensors", "last", prefix="key_")
        seen = dict(await scan.next_page() or [])
        await proxy.aclose()
        pending = asyncio.ensure_future(rest_of(scan))
        await cluster.add_proxy(ports=port)
        rest = await pending
        assert len(seen) + len(rest) == len(keys)
        assert {key: value(state) for key, state in (seen | rest).items()} == keys
        assert scan.complete
        assert scan.info is not None
        assert scan.info.version == 2


async def test_a_batch_that_is_gone_ends_the_scan(
    client: QueryableStateClient, job: InProcessJob
) -> None:
    scan = client.scan("sensors", "last", limit=10)
    assert len([key async for key, _ in scan]) == 10
    for batch in range(2, 12):
        await job.run(batch, {"last": dict.fromkeys(ALL, float(batch))})
    later = client.scan("sensors", "last", page_token=scan.page_token)
    with pytest.raises(VersionGoneError):
        await rest_of(later)


async def test_a_scan_goes_on_at_a_newer_batch_where_that_will_do(
    client: QueryableStateClient, job: InProcessJob
) -> None:
    first = client.scan("sensors", "last", limit=10)
    seen = {key: value(state) async for key, state in first}
    for batch in range(2, 12):
        await job.run(batch, {"last": dict.fromkeys(ALL, float(batch))})
    later = client.scan("sensors", "last", page_token=first.page_token, allow_newer=True)
    rest = await rest_of(later)
    assert later.is_newer
    assert later.complete
    assert later.info is not None
    assert later.info.version == 11
    assert {value(state) for state in rest.values()} == {11.0}
    assert not seen.keys() & rest.keys()
    assert seen.keys() | rest.keys() == ALL.keys()


async def test_a_caller_that_waits_for_a_page_of_a_closed_scan_gets_an_error(
    client: QueryableStateClient,
) -> None:
    """And is not cancelled, which is the business of its task alone."""
    scan = client.scan("sensors", "last", consistency=Consistency.at_least(9))
    waiting = asyncio.ensure_future(scan.next_page())
    await eventually(lambda: scan._call is not None)
    await scan.aclose()
    with pytest.raises(ClientClosedError, match="scan was closed"):
        await waiting
    await scan.aclose()
    assert await scan.next_page() is None


async def test_pages_go_on_behind_the_keys_that_were_taken_one_by_one(
    client: QueryableStateClient,
) -> None:
    scan = client.scan("sensors", "last")
    taken = [(await anext(scan))[0] for _ in range(3)]
    taken += [key async for page in scan.pages() for key, _ in page]
    assert sorted(taken) == sorted(ALL)
