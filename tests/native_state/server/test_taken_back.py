"""Batches whose commits are removed while a server follows the query: the usual way back."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.native_state.server.conftest import client_of, everything, keys_of, until_batch
from tests.waiting import eventually

from queryable_state.client import Consistency
from queryable_state.wire.errors import RetryLaterError, VersionGoneError

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.native_state.server.replay import ReplayedQuery

    from queryable_state.server.native_state.server.native_server import NativeServer

    Serve = Callable[..., NativeServer]


async def test_a_batch_that_was_taken_back_is_not_answered(
    query: ReplayedQuery, serving: Serve
) -> None:
    """An older batch that is committed anew is the state; nobody waits for the one taken back."""
    query.commit(3)
    async with serving(query.root) as server, client_of(server) as client:
        of_batch_3 = await everything(client)
    query.commit(4)
    async with serving(query.root, follow=True) as server, client_of(server) as client:
        key = next(iter(await keys_of(client)))
        for log in ("commits", "offsets"):
            for batch in ("3", "4"):
                (query.root / log / batch).unlink()
        await eventually(lambda: server.served.taken_back is not None)
        assert "commit of batch 4 was removed" in (await client.describe_job()).info.problem
        with pytest.raises(RetryLaterError, match=r"batch 4 of .* was taken back"):
            await client.get_kv_state("query", "aggregation", key, timeout_s=0.5)
        with pytest.raises(RetryLaterError, match="taken back"):
            await everything(client, timeout_s=0.5)
        query.newest = 2
        query.commit(3)
        await eventually(lambda: server.served.facts.batch == 3)
        assert await everything(client) == of_batch_3
        with pytest.raises(VersionGoneError, match="taken back"):
            await client.get_kv_state(
                "query", "aggregation", key, consistency=Consistency.at_least(4)
            )
        query.commit(4)
        await until_batch(server, 4)
        at_4 = Consistency.at_least(4)
        assert (
            await client.get_kv_state("query", "aggregation", key, consistency=at_4)
        ).info.version == 4


async def test_a_commit_that_is_back_is_answered_again(
    query: ReplayedQuery, serving: Serve
) -> None:
    """The same file, moved away and back: the batch was never repeated."""
    query.commit(4)
    async with serving(query.root, follow=True) as server, client_of(server) as client:
        before = await everything(client)
        away = query.root / "4.away"
        (query.root / "commits" / "4").rename(away)
        await eventually(lambda: server.served.taken_back is not None)
        away.rename(query.root / "commits" / "4")
        await eventually(lambda: server.served.taken_back is None)
        assert await everything(client) == before
