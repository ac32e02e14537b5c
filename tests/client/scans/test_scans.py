"""Scans: what they answer, where they go on, and what they leave behind."""

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
    KeyTypeError,
    LimitExceededError,
    ListState,
    MapState,
    Reason,
    RetryLaterError,
    Types,
    UnknownStateError,
    VersionGoneError,
)
from queryable_state.server.config.limits import Limits
from queryable_state.server.testing.cluster import InProcessCluster, declare
from queryable_state.v1 import registration_pb2

if TYPE_CHECKING:
    from pathlib import Path

    from queryable_state.client import QueryableStateClient
    from queryable_state.server.testing.cluster import InProcessJob

from tests.client.scans.values import ALL, rest_of, value


async def test_a_scan_has_every_key_once_in_order_within_key_groups(
    client: QueryableStateClient,
) -> None:
    scan = client.scan("sensors", "last")
    assert (scan.info, scan.complete, scan.page_token) == (None, False, b"")
    entries = [(key, value(state)) async for key, state in scan]
    assert len(entries) == 100
    assert dict(entries) == ALL
    assert scan.complete
    assert scan.page_token == b""
    assert scan.info is not None
    assert scan.info.version == 1
    # Gone through once.
    assert [entry async for entry in scan] == []
    handle = client._dispatcher().locator.handle("sensors", "last")
    assert handle.codecs is not None
    wire_keys = [handle.codecs.key_groups.wire_key(key) for key, _ in entries]
    assert wire_keys == sorted(wire_keys)


async def test_states_of_every_kind_are_scanned(client: QueryableStateClient) -> None:
    [(key, seen)] = [entry async for entry in client.scan("sensors", "seen")]
    assert isinstance(seen, ListState)
    assert (key, seen.get()) == ("sensor_1", ["a", "b"])
    [(_, counts)] = [entry async for entry in client.scan("sensors", "counts")]
    assert isinstance(counts, MapState)
    assert dict(counts.items()) == {"x": 1, "y": 2}
    [(_, maximum)] = [entry async for entry in client.scan("sensors", "maximum")]
    assert maximum is not None
    assert (maximum.get(), maximum.info.version) == (99, 1)


async def test_ranges_prefixes_and_keys_alone(client: QueryableStateClient) -> None:
    async def keys_of(**keys: str) -> set[str]:
        scan = client.scan("sensors", "last", keys_only=True, **keys)  # type: ignore[arg-type]
        entries = [entry async for entry in scan]
        assert {state for _, state in entries} <= {None}
        return {key for key, _ in entries}

    assert await keys_of() == set(ALL)
    assert await keys_of(prefix="sensor_1") == {key for key in ALL if key.startswith("sensor_1")}
    assert await keys_of(prefix="") == set(ALL)
    assert await keys_of(prefix="x") == set()
    assert await keys_of(start="sensor_5") == {key for key in ALL if key >= "sensor_5"}
    assert await keys_of(end="sensor_5") == {key for key in ALL if key < "sensor_5"}
    assert await keys_of(start="sensor_2", end="sensor_3") == {
        key for key in ALL if "sensor_2" <= key < "sensor_3"
    }


async def test_tuples_are_scanned_by_their_first_fields(
    cluster: InProcessCluster, client: QueryableStateClient
) -> None:
    job = cluster.job("trips", declare("by", Types.TUPLE([Types.STRING(), Types.INT()]), "bigint"))
    await job.run(0, {"by": {("AA", 1): 1, ("AA", 2): 2, ("AB", 1): 3}})
    scan = client.scan("trips", "by", prefix=("AA",))
    assert {key: value(state) async for key, state in scan} == {("AA", 1): 1, ("AA", 2): 2}


async def test_scans_wait_for_the_requested_batch(
    client: QueryableStateClient, cluster: InProcessCluster, job: InProcessJob
) -> None:
    scan = client.scan("sensors", "last", consistency=Consistency.at_least(2))
    first = asyncio.ensure_future(scan.next_page())
    stores = cluster.servers[0].table.job(job.query_id)
    assert stores is not None
    await eventually(lambda: len(stores.waiting) > 0)
    await job.run(2, {"last": dict.fromkeys(ALL, 2.0)})
    assert {value(state) for _, state in await first or []} == {2.0}
    assert {value(state) async for _, state in scan} <= {2.0}
    assert scan.info is not None
    assert scan.info.version == 2


async def test_a_batch_that_does_not_come_says_so_before_time_is_over(
    client: QueryableStateClient,
) -> None:
    scan = client.scan("sensors", "last", consistency=Consistency.at_least(9), timeout_s=2)
    with pytest.raises(RetryLaterError, match="batch 9") as raised:
        await anext(scan)
    assert raised.value.reason == Reason.BEHIND


async def test_a_scan_left_early_holds_nothing(
    client: QueryableStateClient, cluster: InProcessCluster, job: InProcessJob
) -> None:
    """Whether it is closed, its task is cancelled, or its client is closed."""
    await job.run(2, {"last": {f"key_{number}": 1.0 for number in range(20_000)}})

    def under_way() -> int:
        return sum(server.engine._scans.open for server in cluster.servers)

    async with client.scan("sensors", "last") as scan:
        await anext(scan)
        assert under_way()
    await eventually(lambda: not under_way())
    assert [entry async for entry in scan] == []

    context = asyncio.Event()

    async def read() -> None:
        async for _ in client.scan("sensors", "last"):
            context.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(read())
    await context.wait()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await eventually(lambda: not under_way())

    scan = client.scan("sensors", "last")
    await anext(scan)
    await client.aclose()
    await eventually(lambda: not under_way())
    with pytest.raises(ClientClosedError):
        async for _ in scan:
            pass


async def test_a_scan_under_way_is_of_one_batch_whatever_is_allowed(
    cluster: InProcessCluster, job: InProcessJob
) -> None:
    """Its token goes on at a newer one."""
    # More than connections hold.
    keys = {f"key_{number:05}{'x' * 1000}": 1.0 for number in range(20_000)}
    await job.run(2, {"last": keys})
    proxy = await cluster.add_proxy()
    port = proxy.address.rpartition(":")[2]
    async with client_of(proxy.address, direct=False) as client:
        scan = client.scan("sensors", "last", prefix="key_", allow_newer=True)
        seen = dict(await scan.next_page() or [])
        await proxy.aclose()
        for batch in range(3, 8):
            await job.run(batch, {"last": {"sensor_1": 0.0}})
        await cluster.add_proxy(ports=port)
        with pytest.raises(VersionGoneError):
            await rest_of(scan)
        later = client.scan(
            "sensors", "last", prefix="key_", page_token=scan.page_token, allow_newer=True
        )
        rest = await rest_of(later)
        assert later.is_newer
        assert not scan.is_newer
        assert seen.keys().isdisjoint(rest)


async def test_a_state_that_does_not_fit_is_refused_alone(tmp_path: Path) -> None:
    sizes = {f"key_{number}": number for number in range(1, 9)}
    async with InProcessCluster(tmp_path, servers=2, limits=Limits(prefix_records=6)) as cluster:
        job = cluster.job(
            "sensors",
            declare("counts", "string", "bigint", kind=registration_pb2.MAP, map_key_type="int"),
        )
        await job.run(0, {"counts": {key: dict.fromkeys(range(n), n) for key, n in sizes.items()}})
        async with client_of(cluster.servers[0].addresses.proxy) as client:
            scan = client.scan("sensors", "counts")
            found = {key: state async for key, state in scan}
            assert not scan.complete
            assert not scan.page_token
            assert found.keys() == sizes.keys()
            for key, state in found.items():
                assert state is not None
                if sizes[key] <= 6:
                    assert len(state.items()) == sizes[key]
                    continue
                with pytest.raises(LimitExceededError, match="read single entries instead"):
                    state.items()
                assert "LimitExceededError" in repr(state)
                assert state.info.version == 0
            keys = client.scan("sensors", "counts", keys_only=True)
            assert {key async for key, _ in keys} == sizes.keys()
            assert keys.complete


async def test_one_task_at_a_time_takes_from_a_scan(
    client: QueryableStateClient, job: InProcessJob
) -> None:
    keys = {f"key_{number}": 1.0 for number in range(3000)}
    await job.run(2, {"last": keys})
    scan = client.scan("sensors", "last", prefix="key_")
    first = asyncio.ensure_future(scan.next_page())
    await eventually(lambda: scan._is_read)
    with pytest.raises(InvalidRequestError, match="another task"):
        await scan.next_page()
    found = dict(await first or []) | await rest_of(scan)
    assert found.keys() == keys.keys()


async def test_nobody_to_ask_is_a_typed_error_in_time() -> None:
    async with client_of("127.0.0.1:1", timeout_s=0.4) as client:
        with pytest.raises(RetryLaterError, match=r"127\.0\.0\.1:1"):
            await anext(client.scan("sensors", "last"))


async def test_what_can_be_no_scan_is_refused_at_once(client: QueryableStateClient) -> None:
    with pytest.raises(InvalidRequestError, match="not both"):
        client.scan("sensors", "last", prefix="a", start="b")
    for limit in (0, -1, 1.5, True, 1 << 64):
        with pytest.raises(InvalidRequestError, match="limit"):
            client.scan("sensors", "last", limit=limit)  # type: ignore[arg-type]
    with pytest.raises(InvalidRequestError, match="page_token"):
        client.scan("sensors", "last", page_token="text")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="timeout"):
        client.scan("sensors", "last", timeout=1)  # type: ignore[call-arg]


async def test_what_the_state_has_not_is_refused_with_the_first_page(
    client: QueryableStateClient,
) -> None:
    with pytest.raises(UnknownStateError, match="lost"):
        await anext(client.scan("sensors", "lost"))
    for wrong in (
        client.scan("sensors", "last", start=1),
        client.scan("sensors", "last", prefix=1),
        client.scan("sensors", "last", key_type="bigint"),
    ):
        with pytest.raises(KeyTypeError, match="last"):
            await anext(wrong)
