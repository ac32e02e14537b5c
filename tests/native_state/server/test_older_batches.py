"""Older batches of a followed query, which are readable while they are kept."""

from __future__ import annotations

from typing import TYPE_CHECKING

import grpc.aio
from tests.native_state.server.conftest import until_batch
from tests.waiting import eventually

from queryable_state.v1 import query_pb2, query_pb2_grpc

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.native_state.server.replay import ReplayedQuery

    from queryable_state.server.native_state.server.native_server import NativeServer

    Serve = Callable[..., NativeServer]


async def test_older_batches_are_read_while_they_are_kept(
    query: ReplayedQuery, serving: Serve
) -> None:
    query.commit(3)
    async with serving(query.root, follow=True, kept_batches=3) as server:
        known = {3: await scanned_at(server, 3)}
        for batch in range(4, 9):
            query.commit(batch)
            await until_batch(server, batch)
            known[batch] = await scanned_at(server, batch)
            for older in range(max(3, batch - 3), batch):
                assert await scanned_at(server, older) == known[older]
        assert len({str(each) for each in known.values()}) == len(known)

        async def is_compacted() -> bool:
            try:
                await scanned_at(server, 3)
            except grpc.aio.AioRpcError as gone:
                return "oldest readable batch" in str(gone.details())
            return False

        await eventually(is_compacted)
    # Loaded later: there are no changes behind the newest snapshot, which is of this batch.
    async with serving(query.root, kept_batches=2) as server:
        assert await scanned_at(server, 8) == known[8]


async def scanned_at(server: NativeServer, batch: int) -> dict[bytes, list[bytes]]:
    """All records as of a batch."""
    async with grpc.aio.insecure_channel(server.address) as channel:
        stub = query_pb2_grpc.QueryableStateStub(channel)
        request = query_pb2.ScanKvStateRequest(state_name="aggregation", at_version=batch)
        found: dict[bytes, list[bytes]] = {}
        async for message in stub.ScanKvState(request):
            assert message.info.version == batch
            found |= {each.key: list(each.records.values) for each in message.keys}
        return found
