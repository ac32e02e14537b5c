"""Both backends, as fixtures every test of the store contract runs over."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import pytest

from queryable_state.internal.v1.changes_pb2 import ChangeBlock
from queryable_state.server.storage.heap.store import HeapStateStore
from queryable_state.server.storage.overlay import Overlay, OverlayBuilder
from queryable_state.server.storage.rocksdb.settings import RocksDBSettings
from queryable_state.server.storage.rocksdb.store import RocksDBStateStore

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from queryable_state.server.storage.store import StateStore

STATE = 7


class OpenStore(Protocol):
    def __call__(self, committed_version: int = -1) -> StateStore: ...


class MakeOverlay(Protocol):
    def __call__(
        self,
        puts: Mapping[bytes, bytes] | None = None,
        *,
        deletes: Sequence[bytes] = (),
        clears: Sequence[bytes] = (),
        state_id: int = STATE,
    ) -> Overlay: ...


class Advance(Protocol):
    def __call__(
        self,
        store: StateStore,
        puts: Mapping[bytes, bytes] | None = None,
        *,
        deletes: Sequence[bytes] = (),
        clears: Sequence[bytes] = (),
    ) -> int: ...


@pytest.fixture(params=["heap", "rocksdb"])
def open_store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[OpenStore]:
    """Opens stores with state 7; a RocksDB store always in the same directory."""
    opened: list[StateStore] = []

    def open_one(committed_version: int = -1) -> StateStore:
        store: StateStore
        if request.param == "heap":
            store = HeapStateStore(committed_version)
        else:
            settings = RocksDBSettings(block_cache_bytes=1 << 20, write_buffer_bytes=1 << 20)
            store = RocksDBStateStore(tmp_path / "store", settings, committed_version)
        store.add_state(STATE)
        opened.append(store)
        return store

    yield open_one
    for store in opened:
        store.close()


@pytest.fixture
def store(open_store: OpenStore) -> StateStore:
    """An empty store with state 7."""
    return open_store()


@pytest.fixture
def overlay() -> MakeOverlay:
    """Makes the overlay of one change block."""

    def make(
        puts: Mapping[bytes, bytes] | None = None,
        *,
        deletes: Sequence[bytes] = (),
        clears: Sequence[bytes] = (),
        state_id: int = STATE,
    ) -> Overlay:
        puts = puts or {}
        builder = OverlayBuilder()
        builder.add_block(
            ChangeBlock(
                format_version=1,
                state_id=state_id,
                cleared_prefixes=clears,
                deleted_keys=deletes,
                put_keys=puts.keys(),
                put_values=puts.values(),
            )
        )
        return builder.build()

    return make


@pytest.fixture
def advance(overlay: MakeOverlay) -> Advance:
    """Seals and commits the next version; returns it."""

    def advance_one(
        store: StateStore,
        puts: Mapping[bytes, bytes] | None = None,
        *,
        deletes: Sequence[bytes] = (),
        clears: Sequence[bytes] = (),
    ) -> int:
        version = store.committed_version + 1
        store.seal(version, overlay(puts, deletes=deletes, clears=clears), (1, version))
        store.commit(version)
        return version

    return advance_one
