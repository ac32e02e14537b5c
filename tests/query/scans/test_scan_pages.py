"""Pages of a scan: the version they are read at, and the tokens between them."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import grpc.aio
import pytest
from tests.query.scans.scanning import ALL, scan, scan_call, taken, texts_of, values_of
from tests.waiting import DEADLINE_S

from queryable_state.server.testing.cluster import declare
from queryable_state.v1 import query_pb2
from queryable_state.wire.errors import InvalidRequestError, VersionGoneError

if TYPE_CHECKING:
    from queryable_state.server.testing.cluster import InProcessCluster, InProcessJob


@pytest.mark.parametrize("limit", [1, 7, 50, 99, 100, 101])
@pytest.mark.parametrize("as_json", [False, True])
async def test_pages_make_up_the_whole(
    channel: grpc.aio.Channel, limit: int, as_json: bool
) -> None:
    """Of the batch of the first page, whatever is committed meanwhile."""
    found: dict[str, float] = {}
    token = b""
    for _ in range(-(-len(ALL) // limit) + 1):
        messages = await scan(channel, limit=limit, page_token=token, json=as_json)
        page = texts_of(messages) if as_json else values_of(messages)
        assert len(page) <= limit
        assert not found.keys() & page.keys()
        found.update(page)
        token = messages[-1].page_token
        assert messages[-1].complete == (not token)
        if not token:
            break
    assert not token
    assert found == ALL


async def test_a_token_goes_on_as_of_its_batch_until_that_is_gone(
    channel: grpc.aio.Channel, job: InProcessJob
) -> None:
    values = ALL
    for batch in range(1, 20):
        first = await scan(channel, limit=10)
        token = first[-1].page_token
        await job.run(batch, {"last": dict.fromkeys(ALL, -float(batch))})
        try:
            rest = await scan(channel, page_token=token)
            break
        except VersionGoneError:
            # The background thread was faster than this test: once more.
            values = dict.fromkeys(ALL, -float(batch))
    else:
        pytest.fail("no token has outlived its batch")
    assert values_of(first) | values_of(rest) == values
    assert rest[0].info.version == batch - 1
    for later in range(batch + 1, batch + 3):
        await job.run(later, {"last": dict.fromkeys(ALL, -1.0)})
    with pytest.raises(VersionGoneError):
        await _scan_on_and_on(channel, page_token=token)


async def _scan_on_and_on(channel: grpc.aio.Channel, **fields: Any) -> None:
    """Scans until it is refused: the background thread compacts at its own pace."""
    async with asyncio.timeout(DEADLINE_S):
        while True:
            await scan(channel, **fields)


async def test_a_scan_is_of_one_batch_whatever_is_committed_before_it_is_read(
    cluster: InProcessCluster,
) -> None:
    """Every owner has pinned the batch before the first message is handed out."""
    job = cluster.job("large", declare("wide", "string", "string"), parallelism=4)
    await job.run(0, {"wide": {f"k{number}": "x" * 2000 for number in range(4000)}})
    proxy = await cluster.add_proxy()
    async with grpc.aio.insecure_channel(proxy.address) as channel:
        call = scan_call(channel, job="large", state_name="wide")
        messages = [await anext(taken(call))]
        for batch in range(1, 5):
            await job.run(batch, {"wide": {f"k{n}": f"{batch}" for n in range(4000)}})
        messages += [message async for message in taken(call)]
        scanned = [each for message in messages for each in message.keys]
        assert len(scanned) == 4000
        assert {message.info.version for message in messages} == {0}
        assert all(len(each.records.values[0]) > 2000 for each in scanned)
        assert len(messages) > 8


async def test_a_token_goes_on_at_a_newer_batch_where_that_will_do(
    channel: grpc.aio.Channel, job: InProcessJob
) -> None:
    """As of its own batch while that is there; and a page that is of another says so."""
    first = await scan(channel, limit=10)
    token = first[-1].page_token
    again = await scan(channel, limit=10, page_token=token, allow_newer=True)
    assert not any(message.newer for message in again)
    for batch in range(1, 4):
        await job.run(batch, {"last": dict.fromkeys(ALL, float(batch))})
    with pytest.raises(VersionGoneError):
        await _scan_on_and_on(channel, page_token=token)
    rest = await scan(channel, page_token=token, allow_newer=True)
    assert all(message.newer for message in rest)
    assert rest[0].info.version == 3
    assert rest[-1].complete
    assert values_of(rest).keys() | values_of(first).keys() == ALL.keys()
    assert not values_of(rest).keys() & values_of(first).keys()
    assert set(values_of(rest).values()) == {3.0}


async def test_a_token_of_another_scan_is_refused(channel: grpc.aio.Channel) -> None:
    token = (await scan(channel, limit=3))[-1].page_token
    for fields in (
        {"prefix_json": '"sensor_1"'},
        {"state_name": "seen"},
        {"first_key_group": 3},
        {"allow_incomplete": True},
    ):
        with pytest.raises(InvalidRequestError, match="another scan"):
            await scan(channel, page_token=token, **fields)
    with pytest.raises(InvalidRequestError, match="not intact"):
        await scan(channel, page_token=token[:-1])
    with pytest.raises(InvalidRequestError, match="continues batch 0, and at_version is 7"):
        await scan(channel, page_token=token, at_version=7)


async def test_uncommitted_keys_are_scanned_page_by_page(
    channel: grpc.aio.Channel, job: InProcessJob
) -> None:
    await job.seal(1, {"last": {"sensor_0": 100.0, "new": 1.0}})
    first = await scan(channel, limit=50, consistency=query_pb2.UNCOMMITTED)
    rest = await scan(channel, page_token=first[-1].page_token, consistency=query_pb2.UNCOMMITTED)
    assert values_of(first) | values_of(rest) == ALL | {"sensor_0": 100.0, "new": 1.0}
    assert values_of(await scan(channel)) == ALL
