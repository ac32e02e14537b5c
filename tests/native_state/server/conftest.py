"""Servers of replayed checkpoints, and clients of them."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
from tests.native_state.server.replay import ReplayedQuery
from tests.waiting import DEADLINE_S, eventually

from queryable_state.client import QueryableStateClient
from queryable_state.server.native_state.server.native_server import NativeServer
from queryable_state.server.settings.checkpoint_server_settings import CheckpointServerSettings

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path


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

    async def is_there() -> bool:
        return server.served.facts.batch >= batch

    await eventually(is_there)


async def everything(
    client: QueryableStateClient, state: str = "aggregation", **options: Any
) -> dict[Any, Any]:
    """All keys of a state with their values."""
    async with client.scan("query", state, **options) as scan:
        return {str(key): value.value() async for key, value in scan if value is not None}


async def keys_of(client: QueryableStateClient, state: str = "aggregation") -> list[Any]:
    """All keys of a state, in the order of a scan."""
    async with client.scan("query", state, keys_only=True) as scan:
        return [key async for key, _ in scan]
