"""Snapshots on disk, written from a store and loaded into one, as a server does it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.storage.model import TIMERS

from queryable_state.internal.v1.checkpoint_pb2 import SnapshotFormat
from queryable_state.server.checkpoint.canonical import CanonicalWriter, read_canonical
from queryable_state.server.storage.heap.store import HeapStateStore
from queryable_state.server.storage.rocksdb.files import read_rocksdb_files
from queryable_state.server.storage.rocksdb.settings import RocksDBSettings
from queryable_state.server.storage.rocksdb.store import RocksDBStateStore

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from queryable_state.server.storage.snapshot import StoreSnapshot
    from queryable_state.server.storage.store import StateStore

SMALL = RocksDBSettings(block_cache_bytes=1 << 20, write_buffer_bytes=1 << 16)
BACKENDS = ("heap", "rocksdb")
ALL_GROUPS = (0, 0xFFFF)


@dataclass(frozen=True)
class Stored:
    """A snapshot of one store."""

    version: int
    files: Mapping[str, Path]
    """Native files by name, or one canonical file."""
    native: bool
    operator_states: Mapping[int, tuple[bytes, ...]]

    def read(self, scratch: Path, first: int, last: int) -> Iterator[tuple[int, list[_Record]]]:
        if self.native:
            return read_rocksdb_files(self.files, scratch, first, last)
        return read_canonical(self.files["state"], first, last)


_Record = tuple[bytes, bytes]


def store_snapshot(snapshot: StoreSnapshot, folder: Path) -> Stored:
    """Writes a canonical snapshot into `folder`; a native one is on disk already."""
    native = snapshot.format == SnapshotFormat.ROCKSDB
    if native:
        files = {file.name: file.path for file in snapshot.files()}
    else:
        folder.mkdir(parents=True)
        files = {"state": folder / "state"}
        with CanonicalWriter(files["state"]) as writer:
            snapshot.write_canonical(writer)
    return Stored(snapshot.version, files, native, dict(snapshot.operator_states()))


def new_store(
    backend: str, directory: Path, state_ids: Iterable[int], version: int = -1
) -> StateStore:
    store: StateStore
    if backend == "heap":
        store = HeapStateStore(version)
    else:
        store = RocksDBStateStore(directory, SMALL, version)
    for state_id in state_ids:
        store.add_state(state_id, timers=state_id == TIMERS)
    return store


def restore_whole(
    backend: str, directory: Path, stored: Stored, state_ids: Iterable[int]
) -> StateStore:
    """A store of the same range: native files are taken as they are."""
    store: StateStore
    if stored.native and backend == "rocksdb":
        store = RocksDBStateStore.from_files(directory, SMALL, stored.files, stored.version)
        for state_id in state_ids:
            store.add_state(state_id, timers=state_id == TIMERS)
    else:
        store = restore_groups(backend, directory, [stored], state_ids, *ALL_GROUPS)
    store.load_operator_states(stored.operator_states)
    return store


def restore_groups(
    backend: str,
    directory: Path,
    sources: Sequence[Stored],
    state_ids: Iterable[int],
    first: int,
    last: int,
) -> StateStore:
    """A store of some key groups out of snapshots of one version."""
    store = new_store(backend, directory, state_ids, sources[0].version)
    with store.bulk_load() as load:
        for source in sources:
            for state_id, records in source.read(directory.parent / "scratch", first, last):
                load.put(state_id, records)
    return store
