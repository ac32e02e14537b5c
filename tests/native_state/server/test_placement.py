"""Keys and the partitions that they are in: look-ups, and files of other partitions."""

from __future__ import annotations

import asyncio
import shutil
from typing import TYPE_CHECKING

import pytest
from tests.native_state.answers.client_records import looked_up_records
from tests.native_state.server.conftest import client_of, everything, keys_of, until_batch
from tests.native_state.server.replay import ReplayedQuery
from tests.native_state.server.shared_servers import two_servers
from tests.waiting import eventually

from queryable_state.client.blocking import QueryableStateClient as BlockingClient
from queryable_state.v1.registration_pb2 import SPARK_HASH
from queryable_state.wire.addresses import host_and_port
from queryable_state.wire.errors import CorruptDataError, InvalidRequestError
from queryable_state.wire.keys.key_groups import KeyGroups
from queryable_state.wire.schema.type_model import TypeInfo

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from queryable_state.server.native_state.server.native_server import NativeServer

    Serve = Callable[..., NativeServer]

_NAMES = [
    "aggregation-rocksdb-lz4",
    "aggregation-rocksdb-zips",
    "aggregation-hdfs-lz4",
]
_NAMED = (
    r"/state/0/([01])/\S+ is in the folder of partition \1, but its keys belong to partition (?!\1)"
)
_OTHER_OPERATORS = [
    "join-hdfs",
    "spark-4.2-sessions-rocksdb",
    "collector-rocksdb",
]


@pytest.mark.parametrize("name", [*_NAMES, *_OTHER_OPERATORS])
async def test_exchanged_partitions_are_named(name: str, serving: Serve, tmp_path: Path) -> None:
    query = ReplayedQuery.of_fixture(name, tmp_path)
    query.commit(query.last_batch)
    exchange(query)
    with pytest.raises(CorruptDataError, match=_NAMED):
        await serving(query.root).__aenter__()


@pytest.mark.parametrize("name", _NAMES)
async def test_a_copied_partition_is_refused_and_the_others_answer(
    name: str, serving: Serve, tmp_path: Path
) -> None:
    query = ReplayedQuery.of_fixture(name, tmp_path)
    query.commit(query.last_batch)
    async with serving(query.root) as server, client_of(server) as client:
        whole, keys = await everything(client), await keys_of(client)
        state_type = server.served.states.registrations["aggregation"].key_type
    partition_of = KeyGroups(TypeInfo.from_proto(state_type), 2, SPARK_HASH).of
    assert {partition_of(key) for key in keys} == {0, 1}
    state = query.root / "state" / "0"
    shutil.rmtree(state / "1")
    shutil.copytree(state / "0", state / "1")
    async with serving(query.root, lazy=True) as server, client_of(server) as client:
        for key in keys:
            if partition_of(key) == 1:
                with pytest.raises(CorruptDataError, match=_NAMED):
                    await client.get_kv_state("query", "aggregation", key)
            else:
                value = await client.get_kv_state("query", "aggregation", key)
                assert value.value() == whole[str(key)]


async def test_exchanged_changes_of_a_batch_are_not_served(
    query: ReplayedQuery, serving: Serve
) -> None:
    query.commit(3)
    async with serving(query.root, follow=True) as server, client_of(server) as client:
        before = await everything(client)
        query.begin(4)
        folders = [query.root / "state" / "0" / name for name in "01"]
        names = [path.name for path in folders[0].glob("*5.changelog*")]
        whole = {
            folder / name: (folder / name).read_bytes() for folder in folders for name in names
        }
        for folder, other in zip(folders, reversed(folders), strict=True):
            for name in names:
                (folder / name).write_bytes(whole[other / name])
        query.commit(4)

        async def is_named() -> bool:
            problem = (await client.list_jobs())[0].problem
            return "its keys belong to partition" in problem

        await eventually(is_named)
        assert await everything(client) == before
        for path, data in whole.items():
            path.write_bytes(data)
        await until_batch(server, 4)


def not_strict(query: ReplayedQuery) -> None:
    """Makes the offset log say that keys may be in any partition."""
    for path in (query.root / "offsets").glob("[0-9]*"):
        path.write_text(path.read_text().replace('Distribution":"true"', 'Distribution":"false"'))
        path.with_name(f".{path.name}.crc").unlink(missing_ok=True)


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


def exchange(query: ReplayedQuery) -> None:
    """Exchanges the state of the two partitions, but for their schemas."""
    state = query.root / "state" / "0"
    (state / "0").rename(state / "other")
    (state / "1").rename(state / "0")
    (state / "other").rename(state / "1")
    for schema in list((state / "1").rglob("_metadata")):
        # Schemas are in the folder of partition 0 alone.
        schema.rename(state / "0" / schema.relative_to(state / "1"))


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
    query.commit(query.last_batch)
    not_strict(query)
    exchange(query)
    replayed = ReplayedQuery(query.root, query.root.with_name("replayed"))
    replayed.commit(3)
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
        two_servers(serving, query.root) as (server, _),
        client_of(server) as client,
    ):
        assert await everything(client) == strict
        with pytest.raises(InvalidRequestError, match="useStrictDistribution"):
            await client.get_kv_state("query", "aggregation", keys[0])
