"""Offsets of a committed batch that are lost while the query is followed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.native_state.server.conftest import (
    client_of,
    everything,
    query,
    serving,
    until_batch,
)
from tests.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.native_state.server.replay import ReplayedQuery

    from queryable_state.server.native_state.server.native_server import NativeServer

__all__ = ["query", "serving"]


async def test_lost_offsets_are_named_until_a_newer_batch_is_served(
    query: ReplayedQuery, serving: Callable[..., NativeServer]
) -> None:
    query.commit(3)
    async with serving(query.root, follow=True) as server, client_of(server) as client:
        before = await everything(client)
        query.begin(5)
        offsets = query.root / "offsets" / "4"
        data = offsets.read_bytes()
        offsets.unlink()
        (query.root / "commits" / "4").write_text("v1\n{}")

        async def is_named() -> bool:
            return (
                "offsets/4 is lost: batch 4 is committed" in (await client.list_jobs())[0].problem
            )

        await eventually(is_named)
        assert await everything(client) == before
        query.commit(5)
        await until_batch(server, 5)
        found = await everything(client)

        async def is_over() -> bool:
            return not (await client.list_jobs())[0].problem

        await eventually(is_over)
    offsets.write_bytes(data)
    async with serving(query.root) as server, client_of(server) as client:
        assert await everything(client) == found != before
