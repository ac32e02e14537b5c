"""Servers of replayed checkpoints, and clients of them."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
from tests.native_state.server.replay import ReplayedQuery

from queryable_state.client import QueryableStateClient
from queryable_state.server.native_state.server.native_server import NativeServer
from queryable_state.server.settings.checkpoint_server_settings import CheckpointServerSettings

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path

DEADLINE_S = 30.0

Serve = "Callable[..., AbstractAsyncContextManager[NativeServer]]"


@pytest.fixture
def query(tmp_path: Path) -> ReplayedQuery:
    """An aggregation over RocksDB with changelogs; nothing is committed yet."""
    return ReplayedQuery.of_fixture("aggregation-rocksdb-lz4", tmp_path)


@pytest.fixture
def serving(tmp_path: Path) -> Callable[..., NativeServer]:
    """Makes a server of a checkpoint, on free ports."""

    def serve(root: Path, **settings: Any) -> NativeServer:
        (tmp_path / "served").mkdir(exist_ok=True)
        fields: dict[str, Any] = {
            "spark_checkpoint": str(root),
            "ports": "0",
            "frame_ports": "0",
            "web": "off",
            "directory": str(tmp_path / "served"),
            "drain_timeout_s": 0.2,
            "name": "query",
        }
        return NativeServer(CheckpointServerSettings(**(fields | settings)))

    return serve


@asynccontextmanager
async def client_of(server: NativeServer) -> AsyncIterator[QueryableStateClient]:
    """A client of a server."""
    host, _, port = server.address.rpartition(":")
    async with QueryableStateClient(host, int(port), timeout_s=DEADLINE_S) as connected:
        yield connected


async def until_batch(server: NativeServer, batch: int) -> None:
    """Waits until a server is at a batch."""
    async with asyncio.timeout(DEADLINE_S):
        while server.served.facts.batch < batch:
            await asyncio.sleep(0.005)


async def everything(
    client: QueryableStateClient, state: str = "aggregation", **options: Any
) -> dict[Any, Any]:
    """All keys of a state with their values."""
    found = {}
    async with client.scan("query", state, **options) as scan:
        async for key, value in scan:
            found[str(key)] = value.value()
    return found
