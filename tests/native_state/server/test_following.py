"""A server that follows a query answers as of its newest commit, whatever happens to the files."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import uuid
from typing import TYPE_CHECKING

import pytest
from tests.native_state.server.conftest import client_of, everything, keys_of, until_batch
from tests.native_state.server.replay import ReplayedQuery
from tests.waiting import DEADLINE_S, eventually

from queryable_state.client import Consistency
from queryable_state.wire.errors import CheckpointError, QueryableStateError, RetryLaterError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from queryable_state.client import JobDescription
    from queryable_state.server.native_state.server.native_server import NativeServer

    Serve = Callable[..., NativeServer]

FIXTURES = [
    "aggregation-rocksdb-lz4",
    "aggregation-rocksdb-zips",
    "aggregation-rocksdb-unique-ids",
    "aggregation-hdfs-lz4",
]


async def as_of(serving: Serve, root: Path) -> dict[object, object]:
    """All that a server answers which loads the newest batch."""
    async with serving(root) as server, client_of(server) as client:
        return await everything(client)


async def described(server: NativeServer, *, problem: str) -> JobDescription:
    """Waits until the description of the query names a problem; empty: none."""
    async with client_of(server) as client, asyncio.timeout(DEADLINE_S):
        while True:
            description = await client.describe_job()
            if (problem in description.info.problem) if problem else not description.info.problem:
                return description
            await asyncio.sleep(0.02)


@pytest.mark.parametrize("name", FIXTURES)
async def test_each_batch_is_served_once_it_is_committed(
    name: str, serving: Serve, tmp_path: Path
) -> None:
    """Loaded from other files and followed from an older batch: the same answers."""
    query = ReplayedQuery.of_fixture(name, tmp_path)
    query.commit(2)
    async with serving(query.root, follow=True) as server, client_of(server) as client:
        for batch in range(3, query.last_batch + 1):
            before = await everything(client)
            query.begin(batch)
            assert await everything(client) == before
            query.commit(batch)
            await until_batch(server, batch)
            found = await everything(client)
            assert found != before
            if batch % 3 == 0 or batch == query.last_batch:
                assert found == await as_of(serving, query.root)


async def test_a_query_waits_for_its_batch(
    query: ReplayedQuery, serving: Serve, tmp_path: Path
) -> None:
    later = ReplayedQuery(tmp_path / "whole", tmp_path / "later")
    later.commit(4)
    async with serving(later.root) as server, client_of(server) as client:
        key = next(iter(await keys_of(client)))
    query.commit(2)
    async with serving(query.root, follow=True) as server, client_of(server) as client:
        asked = client.get_kv_state(
            "query", "aggregation", key, consistency=Consistency.at_least(4)
        )
        waiting = asyncio.ensure_future(asked)
        query.commit(3)
        await until_batch(server, 3)
        assert not waiting.done()
        query.commit(4)
        assert (await waiting).info.version == 4


async def test_the_first_batch_is_waited_for(query: ReplayedQuery, serving: Serve) -> None:
    async with asyncio.TaskGroup() as group:
        query.begin(0)
        server = serving(query.root, follow=True)
        entering = group.create_task(server.__aenter__())
        query.commit(0)
        await entering
        assert server.served.facts.batch == 0
        await server.aclose()
    shutil.rmtree(query.root / "commits")
    with pytest.raises(CheckpointError, match="no committed batch yet"):
        await serving(query.root).__aenter__()


async def test_batches_whose_files_are_gone_are_skipped(
    query: ReplayedQuery, serving: Serve
) -> None:
    """Retention of the query: it keeps a newer snapshot."""
    query.commit(2)
    async with serving(query.root, follow=True, poll_interval_ms=200) as server:
        query.commit(9)
        for path in query.state_files(".changelog"):
            if int(path.stem) < 9:
                path.unlink()
        for batch in range(7):
            for log in ("commits", "offsets"):
                (query.root / log / str(batch)).unlink()
        await until_batch(server, 9)
        async with client_of(server) as client:
            assert await everything(client) == await as_of(serving, query.root)


async def test_snapshots_that_are_removed_are_not_needed(
    query: ReplayedQuery, serving: Serve
) -> None:
    query.commit(4)
    async with serving(query.root, follow=True) as server, client_of(server) as client:
        for path in query.state_files(".zip", ".sst"):
            path.unlink()
        whole = await everything(client)
        query.commit(5)
        await until_batch(server, 5)
        assert len(await everything(client)) >= len(whole)


@pytest.mark.parametrize("damage", ["truncated", "garbled", "removed"])
async def test_a_damaged_batch_is_named_and_waited_for(
    damage: str, query: ReplayedQuery, serving: Serve
) -> None:
    query.commit(3)
    async with serving(query.root, follow=True) as server, client_of(server) as client:
        before = await everything(client)
        query.begin(4)
        path = next(path for path in query.state_files(".changelog") if path.stem == "5")
        whole = path.read_bytes()
        path.with_name(f".{path.name}.crc").unlink(missing_ok=True)
        if damage == "removed":
            path.unlink()
        else:
            broken = bytes(255 - each for each in whole[30:60])
            path.write_bytes(
                whole[: len(whole) // 2]
                if damage == "truncated"
                else whole[:30] + broken + whole[60:]
            )
        query.commit(4)
        if damage == "removed":
            # It may be on its way, in an object store.
            path.with_name(f"{path.name}.kept").write_bytes(whole)
        else:
            found = await described(server, problem=str(path))
            assert found.findings[0].code == "CHECKPOINT_DAMAGED"
        assert await everything(client) == before
        path.write_bytes(whole)
        await until_batch(server, 4)
        await described(server, problem="")
        assert await everything(client) == await as_of(serving, query.root)


async def test_a_checkpoint_that_is_removed_is_not_answered_from(
    query: ReplayedQuery, serving: Serve
) -> None:
    query.commit(3)
    async with serving(query.root, follow=True) as server, client_of(server) as client:
        await everything(client)
        shutil.rmtree(query.root)
        found = await described(server, problem="was removed")
        assert found.info.health == "FAILING"
        with pytest.raises(CheckpointError, match="was removed while it was served"):
            await everything(client)


async def test_a_checkpoint_that_cannot_be_read_for_a_while_is_read_again(
    query: ReplayedQuery, serving: Serve
) -> None:
    query.commit(3)
    async with serving(query.root, follow=True) as server, client_of(server) as client:
        whole = await everything(client)
        metadata = query.root / "metadata"
        kept = metadata.rename(metadata.with_name("kept"))
        metadata.mkdir()
        found = await described(server, problem=str(metadata))
        assert found.info.health == "ATTENTION"
        assert await everything(client) == whole
        metadata.rmdir()
        kept.rename(metadata)
        await described(server, problem="")
        query.commit(4)
        await until_batch(server, 4)


async def test_another_query_at_the_place_is_not_answered_for(
    query: ReplayedQuery, serving: Serve
) -> None:
    query.commit(3)
    async with serving(query.root, follow=True) as server, client_of(server) as client:
        (query.root / "metadata").write_text(json.dumps({"id": str(uuid.uuid4())}))
        (query.root / ".metadata.crc").unlink(missing_ok=True)
        await described(server, problem="is now of the query")
        with pytest.raises(QueryableStateError, match="is now of the query"):
            await everything(client)


async def test_a_batch_that_is_committed_again_is_read_again(
    query: ReplayedQuery, serving: Serve
) -> None:
    query.commit(5)
    async with serving(query.root, follow=True) as server, client_of(server) as client:
        whole = await everything(client)
        changelog = next(path for path in query.state_files(".changelog") if path.stem == "6")
        # The repeated batch changed nothing in this partition.
        changelog.write_bytes(
            next(path for path in query.state_files(".changelog") if path.stem == "5").read_bytes()
        )
        changelog.with_name(f".{changelog.name}.crc").unlink(missing_ok=True)
        shutil.rmtree(changelog.parent / "SSTs", ignore_errors=True)
        commit = query.root / "commits" / "5"
        os.utime(commit, (commit.stat().st_atime, commit.stat().st_mtime + 60))

        async def is_read_again() -> bool:
            return await everything(client) != whole

        await eventually(is_read_again)
        assert await everything(client) == await as_of(serving, query.root)


async def test_a_query_goes_on_with_other_partitions(serving: Serve, tmp_path: Path) -> None:
    """Spark repartitioned its state from 2 to 5 partitions in batch 8."""
    query = ReplayedQuery.of_fixture("aggregation-repartitioned", tmp_path)
    query.commit(6)
    async with serving(query.root, follow=True) as server, client_of(server) as client:
        assert len(await everything(client)) > 0
        for batch in range(7, query.last_batch + 1):
            query.commit(batch)
            await until_batch(server, batch)
            assert await everything(client) == await as_of(serving, query.root)
            keys = await keys_of(client)
            found = await client.get_kv_states("query", "aggregation", keys)
            assert all(found)

            state = server.served.states.registrations["aggregation"]
            assert state.max_parallelism == (2 if batch < 8 else 5)


async def test_changes_are_watched(query: ReplayedQuery, serving: Serve) -> None:
    query.commit(2)
    async with serving(query.root, follow=True) as server, client_of(server) as client:
        old = await everything(client)
        async with client.watch("query", "aggregation") as watch:
            query.commit(3)
            seen, changed = {}, {}
            async with asyncio.timeout(DEADLINE_S):
                async for change in watch:
                    assert change.batch == 3
                    assert change.old == old.get(str(change.key))
                    seen[str(change.key)] = change.new
                    new = await everything(client)
                    changed = {
                        key: new.get(key)
                        for key in old.keys() | new.keys()
                        if new.get(key) != old.get(key)
                    }
                    if len(seen) == len(changed):
                        break
        assert seen == changed


async def test_without_follow_newer_batches_are_refused_for_good(
    query: ReplayedQuery, serving: Serve
) -> None:
    query.commit(3)
    async with serving(query.root) as server, client_of(server) as client:
        key = next(iter(await keys_of(client)))
        whole = await everything(client)
        query.commit(4)
        assert await everything(client) == whole
        with pytest.raises(QueryableStateError, match="serve it with --follow") as refused:
            await client.get_kv_state(
                "query", "aggregation", key, consistency=Consistency.at_least(4)
            )
        assert not isinstance(refused.value, RetryLaterError)
