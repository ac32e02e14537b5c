"""Snapshot of a RocksDB store as files, the time-ordered indexes among them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from queryable_state.internal.v1.checkpoint_pb2 import SnapshotFormat
from queryable_state.server.storage.rocksdb.errors import writing_files
from queryable_state.server.storage.rocksdb.files import local_files, read_rocksdb_files
from queryable_state.server.storage.snapshot import LocalFile, StateRecords, StoreSnapshot

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

_ALL_KEY_GROUPS = (0, 0xFFFF)


class NativeSnapshot(StoreSnapshot):
    """A snapshot as a directory of RocksDB files, which belongs to the caller."""

    format = SnapshotFormat.ROCKSDB

    def __init__(
        self,
        version: int,
        directory: Path,
        operator_states: Mapping[int, tuple[bytes, ...]],
        sizes: Sequence[StateRecords],
    ) -> None:
        self.version = version
        self.directory = directory
        self._operator_states = operator_states
        self._sizes = sizes
        with writing_files(directory):
            _remove_unneeded_files(directory)

    def state_ids(self) -> list[int]:
        return [size.state_id for size in self._sizes]

    def records(self, state_id: int) -> Iterator[tuple[bytes, bytes]]:
        files = {file.name: file.path for file in self.files()}
        for _, records in read_rocksdb_files(
            files, self.directory.parent, *_ALL_KEY_GROUPS, state_ids=(state_id,)
        ):
            yield from records

    def files(self) -> list[LocalFile]:
        return local_files(self.directory)

    def operator_states(self) -> Mapping[int, tuple[bytes, ...]]:
        return self._operator_states

    def sizes(self) -> list[StateRecords]:
        return list(self._sizes)

    def close(self) -> None:
        pass


def _remove_unneeded_files(directory: Path) -> None:
    """Removes option files (options are passed on opening) and the unused write-ahead log."""
    for path in directory.iterdir():
        if path.name.startswith("OPTIONS-") or path.suffix == ".log":
            path.unlink()
