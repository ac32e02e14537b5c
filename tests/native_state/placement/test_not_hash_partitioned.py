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
from tests.native_state.server.shared_servers import json_of, two_servers
from tests.native_state.server.test_placement import exchange
from tests.waiting import DEADLINE_S

from queryable_state.cli import main
from queryable_state.client.blocking import QueryableStateClient as BlockingClient
from queryable_state.v1 import query_pb2_grpc, watch_pb2
from queryable_state.v1.registration_pb2 import SPARK_HASH
from queryable_state.wire.addresses import host_and_port
from queryable_state.wire.errors import InvalidRequestError
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


async def test_several_servers_refuse_keys_that_are_not_placed_by_hash(
    query: ReplayedQuery, serving: Serve
) -> None:
    query.commit(3)
    async with serving(query.root) as server, client_of(server) as client:
        strict, keys = await everything(client), await keys_of(client)
    not_strict(query)
    async with (
        two_servers(serving, query.root, follow=True) as (server, _),
        client_of(server) as client,
    ):
        assert await everything(client) == strict
        with pytest.raises(InvalidRequestError, match="useStrictDistribution"):
            await client.get_kv_state("query", "aggregation", keys[0])
        with pytest.raises(InvalidRequestError, match="useStrictDistribution"):
            await client.watch("query", "aggregation", keys=keys[:1]).__aenter__()


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
