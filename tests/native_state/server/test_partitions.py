"""Partitions of a query: loaded when they are asked for, or shared by several servers."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

import pytest
from tests.native_state.server.conftest import client_of, everything, keys_of, until_batch
from tests.native_state.server.replay import ReplayedQuery
from tests.native_state.server.shared_servers import json_of, two_servers

from queryable_state.server.native_state.server.owners import Owners
from queryable_state.v1 import query_pb2, query_pb2_grpc
from queryable_state.wire.errors import InvalidRequestError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from typing import Any

    from queryable_state.server.native_state.server.native_server import NativeServer

    Serve = Callable[..., NativeServer]


async def test_a_lazy_server_loads_what_is_asked_for(query: ReplayedQuery, serving: Serve) -> None:
    query.commit(query.last_batch)
    async with serving(query.root) as server, client_of(server) as client:
        whole, keys = await everything(client), await keys_of(client)
    async with serving(query.root, lazy=True) as server, client_of(server) as client:
        assert server.served.loaded == 0
        assert (await client.list_states("query"))[0].state_name == "aggregation"
        measured = await client.measure("query", "aggregation")
        assert (measured.keys, measured.complete) == (0, False)
        assert (await client.hot_keys("query", "aggregation")).keys == ()
        first = await client.get_kv_state("query", "aggregation", keys[0])
        assert str(first.value()) == str(whole[str(keys[0])])
        assert server.served.loaded == 1
        found = await asyncio.gather(
            *(client.get_kv_state("query", "aggregation", key) for key in keys)
        )
        assert {str(key): each.value() for key, each in zip(keys, found, strict=True)} == whole
        assert server.served.loaded == 2
        assert server.served.is_whole


async def test_a_lazy_server_loads_for_a_scan_and_follows_what_it_has(
    query: ReplayedQuery, serving: Serve
) -> None:
    query.commit(3)
    async with serving(query.root, lazy=True, follow=True) as server, client_of(server) as client:
        await client.get_kv_state("query", "aggregation", await some_key(serving, query))
        assert server.served.loaded == 1
        query.commit(5)
        await until_batch(server, 5)
        assert server.served.loaded == 1
        async with serving(query.root) as other, client_of(other) as expected:
            assert await everything(client) == await everything(expected)
        assert server.served.is_whole


async def some_key(serving: Serve, query: ReplayedQuery) -> Any:
    async with serving(query.root) as server, client_of(server) as client:
        return (await keys_of(client))[0]


async def test_servers_share_the_partitions_and_each_answers_every_key(
    query: ReplayedQuery, serving: Serve
) -> None:
    """Whether the caller is our client, which asks the owners, or gives JSON to any server."""
    query.commit(4)
    async with serving(query.root) as server, client_of(server) as client:
        whole, keys = await everything(client), await keys_of(client)
    async with (
        two_servers(serving, query.root, follow=True) as running,
        AsyncExitStack() as stack,
    ):
        assert [each.served.loaded for each in running] == [1, 1]
        addresses = {each.address for each in running}
        for server in running:
            client = await stack.enter_async_context(client_of(server))
            assert await everything(client) == whole
            found = await client.get_kv_states("query", "aggregation", keys)
            assert {
                str(key): each and each.value() for key, each in zip(keys, found, strict=True)
            } == whole
            assert (await client.measure("query", "aggregation")).keys == len(whole)
            assert {each.query_address for each in await client.list_servers()} == addresses
            await json_look_ups(server, keys)
        query.commit(5)
        for server in running:
            await until_batch(server, 5)
        client = await stack.enter_async_context(client_of(running[0]))
        keys = await keys_of(client)
        found = await client.get_kv_states("query", "aggregation", keys, one_cut=True)
        assert {each.info.version for each in found if each is not None} == {5}
        async with serving(query.root) as alone, client_of(alone) as expected:
            assert await everything(client) == await everything(expected)


async def test_servers_that_share_a_query_go_on_with_other_partitions(
    serving: Serve, tmp_path: Path
) -> None:
    """Spark repartitioned its state from 2 to 5 partitions in batch 8."""
    query = ReplayedQuery.of_fixture("aggregation-repartitioned", tmp_path)
    query.commit(6)
    async with (
        two_servers(serving, query.root, follow=True) as running,
        AsyncExitStack() as stack,
    ):
        clients = [await stack.enter_async_context(client_of(server)) for server in running]
        for batch in range(6, query.last_batch + 1):
            query.commit(batch)
            for server in running:
                await until_batch(server, batch)
            async with serving(query.root) as alone, client_of(alone) as expected:
                whole = await everything(expected)
            for server, client in zip(running, clients, strict=True):
                assert await everything(client) == whole
                keys = await keys_of(client)
                # Well before the deadline of the client, at which it would locate the state again.
                async with asyncio.timeout(15):
                    assert all(await client.get_kv_states("query", "aggregation", keys))
                await json_look_ups(server, keys)


async def json_look_ups(server: NativeServer, keys: list[Any]) -> None:
    """Looks up keys as a program without our client does."""
    import grpc.aio

    async with grpc.aio.insecure_channel(server.address) as channel:
        stub = query_pb2_grpc.QueryableStateStub(channel)
        for key in keys[:4] + keys[-4:]:
            answer = await stub.GetKvState(
                query_pb2.GetKvStateRequest(state_name="aggregation", key_json=json_of(key))
            )
            assert answer.value_json


def test_each_server_has_its_share_and_keeps_it() -> None:
    servers = [f"10.0.0.{number}:9069" for number in range(4)]
    owned = {partition: Owners(servers, servers[0]).owner(partition) for partition in range(2000)}
    for server in servers:
        assert 400 < list(owned.values()).count(server) < 600
    fewer = Owners(servers[:-1], servers[0])
    for partition, owner in owned.items():
        if owner != servers[-1]:
            assert fewer.owner(partition) == owner
    ranges = fewer.ranges(2000)
    assert [each.first_key_group for each in ranges] == [
        0,
        *(each.last_key_group + 1 for each in ranges[:-1]),
    ]
    assert ranges[-1].last_key_group == 1999


def test_a_server_that_is_not_in_the_list_is_refused() -> None:
    with pytest.raises(InvalidRequestError, match="which is not in servers"):
        Owners(["a:1", "b:1"], "c:1")
    with pytest.raises(InvalidRequestError, match="has no port"):
        Owners(["a", "b:1"], "b:1")
