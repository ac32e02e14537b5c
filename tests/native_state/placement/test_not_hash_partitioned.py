"""States whose keys Spark does not place by their hash: how they are shown and looked up."""

from __future__ import annotations

import asyncio
import json
import urllib.parse
import urllib.request
from typing import TYPE_CHECKING, Any

import grpc
import pytest
from tests.native_state.answers.client_records import looked_up_records
from tests.native_state.server.conftest import (
    client_of,
    everything,
    keys_of,
    query,
    serving,
    until_batch,
)
from tests.native_state.server.replay import ReplayedQuery
from tests.native_state.server.shared_servers import json_of, sharing, two_servers
from tests.native_state.server.test_placement import exchange
from tests.waiting import DEADLINE_S

from queryable_state.cli import main
from queryable_state.client import Consistency, QueryableStateError, UnknownKeyOrNamespaceError
from queryable_state.client.blocking import QueryableStateClient as BlockingClient
from queryable_state.server.native_state.server.owners import Owners
from queryable_state.v1 import query_pb2_grpc, watch_pb2
from queryable_state.v1.registration_pb2 import SPARK_HASH
from queryable_state.wire.addresses import host_and_port
from queryable_state.wire.keys.key_groups import KeyGroups
from queryable_state.wire.keys.store_keys import changed_record_key
from queryable_state.wire.located_state import NOT_HASH_PARTITIONED
from queryable_state.wire.schema.type_model import TypeInfo

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from queryable_state.client import Change, Watch
    from queryable_state.server.native_state.server.native_server import NativeServer

    Serve = Callable[..., NativeServer]

__all__ = ["query", "serving"]


def not_strict(query: ReplayedQuery) -> None:
    """Makes the offset log say that keys may be in any partition."""
    for path in (query.root / "offsets").glob("[0-9]*"):
        path.write_text(path.read_text().replace('Distribution":"true"', 'Distribution":"false"'))
        path.with_name(f".{path.name}.crc").unlink(missing_ok=True)


def exchanged(query: ReplayedQuery, batch: int) -> ReplayedQuery:
    """The query with partitions exchanged, without strict distribution, replayed to a batch."""
    query.commit(query.last_batch)
    not_strict(query)
    exchange(query)
    replayed = ReplayedQuery(query.root, query.root.with_name("replayed"))
    replayed.commit(batch)
    return replayed


def looked_up(server: NativeServer) -> dict[str, list[str]]:
    """The records of each key of all states, by look-ups."""
    layouts = [each for one in server.served.states.operators for each in one.layouts.values()]
    with BlockingClient(*host_and_port(server.address)) as client:
        return {
            each.definition.queryable_name: sorted(
                map(str, looked_up_records(client, "query", each.definition))
            )
            for each in layouts
        }


@pytest.mark.parametrize("lazy", [False, True])
async def test_keys_that_are_not_placed_by_hash_are_found_in_any_partition(
    lazy: bool, query: ReplayedQuery, serving: Serve, caplog: pytest.LogCaptureFixture
) -> None:
    query.commit(3)
    async with serving(query.root) as server, client_of(server) as client:
        strict, keys = await everything(client), await keys_of(client)
    not_strict(query)
    exchange(query)
    async with serving(query.root, lazy=lazy) as server, client_of(server) as client:
        one = await client.get_kv_state("query", "aggregation", keys[0])
        assert one.value() == strict[str(keys[0])]
        found = await client.get_kv_states("query", "aggregation", keys)
        assert {
            str(key): each and each.value() for key, each in zip(keys, found, strict=True)
        } == strict
        assert await everything(client) == strict
    assert "keys of aggregation may be in any partition" in caplog.text


@pytest.mark.parametrize("name", ["spark-4.2-sessions-rocksdb", "collector-rocksdb"])
async def test_windows_and_collections_are_found_in_any_partition(
    name: str, serving: Serve, tmp_path: Path
) -> None:
    query = ReplayedQuery.of_fixture(name, tmp_path)
    query.commit(query.last_batch)
    async with serving(query.root) as server:
        strict = await asyncio.to_thread(looked_up, server)
    assert all(strict.values())
    not_strict(query)
    exchange(query)
    async with serving(query.root) as server:
        assert await asyncio.to_thread(looked_up, server) == strict


async def test_each_batch_of_a_query_without_strict_distribution_is_served(
    query: ReplayedQuery, serving: Serve
) -> None:
    replayed = exchanged(query, 3)
    async with serving(replayed.root, follow=True) as server, client_of(server) as client:
        for batch in range(3, replayed.last_batch + 1):
            replayed.commit(batch)
            await until_batch(server, batch)
            whole, keys = await everything(client), await keys_of(client)
            # Once more: from the cache.
            for _ in range(2):
                found = await client.get_kv_states("query", "aggregation", keys)
                assert [each and each.value() for each in found] == list(whole.values())


@pytest.mark.parametrize("lazy", [False, True])
async def test_several_servers_find_keys_at_whichever_server_has_them(
    lazy: bool, query: ReplayedQuery, serving: Serve
) -> None:
    query.commit(3)
    async with serving(query.root) as server, client_of(server) as client:
        strict, keys = await everything(client), await keys_of(client)
    not_strict(query)
    exchange(query)
    async with two_servers(serving, query.root, lazy=lazy) as servers:
        for server in servers:
            async with client_of(server) as client:
                for consistency in (Consistency.COMMITTED, Consistency.UNCOMMITTED):
                    found = await client.get_kv_states(
                        "query",
                        "aggregation",
                        keys,
                        consistency=consistency,
                    )
                    assert {
                        str(key): each and each.value()
                        for key, each in zip(keys, found, strict=True)
                    } == strict
                one = await client.get_kv_state("query", "aggregation", keys[0])
                assert one.value() == strict[str(keys[0])]
                assert await everything(client) == strict
                explained = await client.explain("query", "aggregation", keys[0])
                assert explained.asks_all_partitions
                asked = {each.server_id for each in explained.steps}
                assert {f"native-{each.address}" for each in servers} <= asked
                absent = [*list(keys[0])[:-1], -1]
                with pytest.raises(UnknownKeyOrNamespaceError):
                    await client.get_kv_state("query", "aggregation", absent)


@pytest.mark.parametrize("name", ["spark-4.2-sessions-rocksdb", "collector-rocksdb"])
async def test_several_servers_find_windows_and_collections(
    name: str, serving: Serve, tmp_path: Path
) -> None:
    query = ReplayedQuery.of_fixture(name, tmp_path)
    query.commit(query.last_batch)
    async with serving(query.root) as server:
        strict = await asyncio.to_thread(looked_up, server)
    not_strict(query)
    exchange(query)
    async with two_servers(serving, query.root) as (server, other):
        assert await asyncio.to_thread(looked_up, server) == strict
        assert await asyncio.to_thread(looked_up, other) == strict


async def test_servers_at_different_batches_answer_as_of_one(
    query: ReplayedQuery, serving: Serve, tmp_path: Path
) -> None:
    replayed = exchanged(query, 0)
    again = ReplayedQuery(query.root, tmp_path / "again")
    again.commit(0)
    of_batch: dict[int, dict[str, Any]] = {}
    keys: dict[str, Any] = {}
    async with serving(again.root, follow=True) as server, client_of(server) as client:
        for batch in range(replayed.last_batch + 1):
            again.commit(batch)
            await until_batch(server, batch)
            of_batch[batch] = await everything(client)
            keys |= {str(key): key for key in await keys_of(client)}
    async with (
        two_servers(serving, replayed.root, follow=True) as (server, other),
        client_of(server) as client,
        client_of(other) as of_other,
    ):
        for batch in range(1, replayed.last_batch + 1):
            replayed.commit(batch)
            # No wait: one server may have the batch and the other not yet.
            for each in (client, of_other):
                found = await each.get_kv_states("query", "aggregation", [*keys.values()])
                for key, one in zip(keys, found, strict=True):
                    if one is None:
                        assert not all(key in of_batch[at] for at in (batch - 1, batch))
                    else:
                        assert one.value() == of_batch[one.info.version][key]
            found = await client.get_kv_states(
                "query", "aggregation", [*keys.values()], consistency=Consistency.at_least(batch)
            )
            assert {each.info.version for each in found if each} == {batch}


async def test_keys_of_several_servers_fail_while_one_of_them_is_away(
    query: ReplayedQuery, serving: Serve
) -> None:
    replayed = exchanged(query, 3)
    async with two_servers(serving, replayed.root) as (server, other), client_of(server) as client:
        keys = await keys_of(client)
        await other.__aexit__(None, None, None)
        for key in keys[:2]:
            with pytest.raises(QueryableStateError, match=other.address):
                await client.get_kv_state("query", "aggregation", key, timeout_s=0.4)


async def test_servers_with_other_lists_of_servers_do_not_answer_for_each_other(
    query: ReplayedQuery, serving: Serve
) -> None:
    replayed = exchanged(query, 3)
    async with serving(replayed.root) as server, client_of(server) as client:
        key, *_ = await keys_of(client)
    servers = sharing()
    first, second = servers
    lost = next(each for each in range(2) if Owners(servers, first).owner(each) == second)
    longer = next(
        [*servers, f"127.0.0.1:{port}"]
        for port in range(1, 1000)
        if Owners([*servers, f"127.0.0.1:{port}"], second).owner(lost) not in servers
    )
    async with (
        serving(replayed.root, ports=first.rpartition(":")[2], servers=tuple(servers)) as server,
        serving(replayed.root, ports=second.rpartition(":")[2], servers=tuple(longer)),
        client_of(server) as client,
    ):
        with pytest.raises(QueryableStateError, match="start every server with the same list"):
            await client.get_kv_state("query", "aggregation", key, timeout_s=0.4)


async def test_keys_are_watched_at_all_servers(query: ReplayedQuery, serving: Serve) -> None:
    replayed = exchanged(query, 0)
    async with (
        two_servers(serving, replayed.root, follow=True) as (server, other),
        client_of(server) as client,
    ):
        async with client.watch("query", "aggregation", after_batch=0) as of_all:
            for batch in range(1, replayed.last_batch + 1):
                replayed.commit(batch)
                await until_batch(server, batch)
                await until_batch(other, batch)
            changes = await until_last(of_all, replayed.last_batch)
        keys = sorted({each.key for each in changes}, key=str)[::2]
        wanted = {str(key) for key in keys}
        async with client.watch("query", "aggregation", keys=keys, after_batch=0) as of_keys:
            found = await until_last(of_keys, replayed.last_batch)
        assert ordered(found) == ordered([each for each in changes if str(each.key) in wanted])


async def test_changes_of_keys_are_watched_in_all_partitions(
    query: ReplayedQuery, serving: Serve
) -> None:
    replayed = exchanged(query, 0)
    async with serving(replayed.root, follow=True) as server, client_of(server) as client:
        async with client.watch("query", "aggregation", after_batch=0) as of_all:
            for batch in range(1, replayed.last_batch + 1):
                replayed.commit(batch)
                await until_batch(server, batch)
            changes = await until_last(of_all, replayed.last_batch)
        assert {each.batch for each in changes} > {1}
        keys = sorted({each.key for each in changes}, key=str)[::2]
        wanted = {str(key) for key in keys}
        expected = [each for each in changes if str(each.key) in wanted]
        assert len(expected) > 2
        async with client.watch("query", "aggregation", keys=keys, after_batch=0) as of_keys:
            found = await until_last(of_keys, replayed.last_batch)
        assert ordered(found) == ordered(expected)


@pytest.mark.parametrize("after", [0, 1, 2])
async def test_a_watch_of_keys_is_resumed_within_a_batch(
    after: int, query: ReplayedQuery, serving: Serve
) -> None:
    replayed = exchanged(query, 0)
    async with serving(replayed.root, follow=True) as server, client_of(server) as client:
        async with client.watch("query", "aggregation", after_batch=0) as of_all:
            replayed.commit(1)
            keys = sorted({each.key for each in await until_last(of_all, 1)}, key=str)
        assert len(keys) > 3
        registration = server.served.states.registrations["aggregation"]
        groups = KeyGroups(TypeInfo.from_proto(registration.key_type), 2, SPARK_HASH)
        wire_keys = [groups.wire_key(key) for key in keys]
        whole = await changes_of(server, keys=wire_keys)
        assert [each.key for each in whole] == sorted(wire_keys)
        position = changed_record_key(whole[after])
        rest = await changes_of(server, keys=wire_keys, after_change=position)
        assert rest == whole[after + 1 :]


async def changes_of(server: NativeServer, **request: Any) -> list[watch_pb2.KvChange]:
    """The changes of batch 1."""
    changes: list[watch_pb2.KvChange] = []
    watch_pb2.WatchKvStateRequest(state_name="aggregation", after_batch=0, **request)
    async with grpc.aio.insecure_channel(server.address) as channel:
        call = query_pb2_grpc.QueryableStateStub(channel).WatchKvState(
            watch_pb2.WatchKvStateRequest(state_name="aggregation", after_batch=0, **request)
        )
        async with asyncio.timeout(DEADLINE_S):
            async for message in call:
                changes += message.changes
                if message.batch == 1 and message.complete:
                    return changes
    raise AssertionError("the watch has ended")


async def until_last(watch: Watch, batch: int) -> list[Change]:
    """The changes of a watch up to a batch."""
    found: list[Change] = []
    async with asyncio.timeout(DEADLINE_S):
        while watch.batch is None or watch.batch < batch:
            try:
                async with asyncio.timeout(0.05):
                    found.append(await anext(watch))
            except TimeoutError:
                continue
    return found


def ordered(changes: list[Change]) -> list[str]:
    """The changes by batch and key."""
    return [str(each) for each in sorted(changes, key=lambda each: (each.batch, str(each.key)))]


@pytest.mark.parametrize("is_strict", [False, True])
async def test_lists_and_explanations_say_that_all_partitions_are_asked(
    is_strict: bool, query: ReplayedQuery, serving: Serve, capsys: pytest.CaptureFixture[str]
) -> None:
    query.commit(3)
    if not is_strict:
        not_strict(query)
    asks_all = not is_strict
    async with (
        serving(query.root, web="on", web_ports="0") as server,
        client_of(server) as client,
    ):
        key, *_ = await keys_of(client)
        (state,) = await client.list_states("query")
        explained = await client.explain("query", "aggregation", key)
        assert state.asks_all_partitions == explained.asks_all_partitions == asks_all
        assert (NOT_HASH_PARTITIONED in str(explained)) == asks_all

        rest = f"{server.web_address}/api/v1/jobs/query/states"
        assert (await answer_of(rest))["states"][0]["asks_all_partitions"] == asks_all
        word = urllib.parse.quote(json_of(key))
        found = await answer_of(f"{rest}/aggregation/value?explain=1&key={word}")
        assert found["trace"].get("asks_all_partitions", False) == asks_all

        for command in (["states"], ["explain", "aggregation", json_of(key)]):
            for flags in ([], ["--json"]):
                words = [*command, *flags, "--server", server.address]
                assert await asyncio.to_thread(main, words) == 0
                text = capsys.readouterr().out
                if flags:
                    assert f'"asks_all_partitions": {str(asks_all).lower()}' in text
                else:
                    assert (NOT_HASH_PARTITIONED in text) == asks_all


async def answer_of(url: str) -> Any:
    """The JSON behind a URL."""

    def ask() -> Any:
        with urllib.request.urlopen(url) as answer:
            return json.load(answer)

    return await asyncio.to_thread(ask)
