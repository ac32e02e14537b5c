"""Keys and the partitions that they are in: look-ups, and files of other partitions."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest
from tests.native_state.server.conftest import client_of, everything, keys_of, until_batch
from tests.native_state.server.replay import ReplayedQuery
from tests.waiting import eventually

from queryable_state.v1.registration_pb2 import SPARK_HASH
from queryable_state.wire.errors import CorruptDataError
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


def exchange(query: ReplayedQuery) -> None:
    """Exchanges the state of the two partitions, but for their schemas."""
    state = query.root / "state" / "0"
    (state / "0").rename(state / "other")
    (state / "1").rename(state / "0")
    (state / "other").rename(state / "1")
    for schema in list((state / "1").rglob("_metadata")):
        # Schemas are in the folder of partition 0 alone.
        schema.rename(state / "0" / schema.relative_to(state / "1"))
