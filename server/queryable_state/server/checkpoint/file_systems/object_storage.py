"""Files in the driver's memory, under `driver:` roots."""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING

from queryable_state.server.checkpoint.file_systems.storage import (
    CheckpointStorage,
    FileEntries,
    FileEntry,
    MissingFileError,
)
from queryable_state.server.checkpoint.file_systems.storage_errors import translating
from queryable_state.wire.errors import CheckpointError

if TYPE_CHECKING:
    from pathlib import Path

    from queryable_state.server.checkpoint.file_systems.storage import ObjectStore


class MemoryObjectStore:
    """An `ObjectStore` in the memory of this process."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._objects: dict[str, bytes] = {}

    def put(self, path: str, data: bytes, exclusive: bool) -> bool:
        """Stores a file; returns False and stores nothing if `exclusive` and the file exists."""
        with self._lock:
            if exclusive and path in self._objects:
                return False
            self._objects[path] = data
            return True

    def get(self, path: str) -> bytes | None:
        """The file; None if it does not exist."""
        with self._lock:
            return self._objects.get(path)

    def list(self, prefix: str) -> list[tuple[str, int]]:
        """Paths that start with `prefix`, with their sizes."""
        with self._lock:
            return [
                (path, len(data)) for path, data in self._objects.items() if path.startswith(prefix)
            ]

    def delete(self, path: str) -> None:
        """Removes a file if it exists."""
        with self._lock:
            self._objects.pop(path, None)


class ObjectStorage(CheckpointStorage):
    """The files of an `ObjectStore`; a folder is a common prefix of paths."""

    def __init__(self, objects: ObjectStore) -> None:
        self._objects = objects

    def read(self, path: str) -> bytes:
        data = self._objects.get(path)
        if data is None:
            raise MissingFileError(f"cannot read {path}: the driver has no such file")
        return data

    def write(self, path: str, data: bytes) -> None:
        self._objects.put(path, data, exclusive=False)

    def create(self, path: str, data: bytes) -> bool:
        return self._objects.put(path, data, exclusive=True)

    def exists(self, path: str) -> bool:
        return any(
            each == path or each.startswith(f"{path}/") for each, _ in self._objects.list(path)
        )

    def size(self, path: str) -> int:
        for each, size_bytes in self._objects.list(path):
            if each == path:
                return size_bytes
        raise MissingFileError(f"cannot get the size of {path}: the driver has no such file")

    def modified_ms(self, path: str) -> int:
        raise CheckpointError(f"cannot get the time of {path}: the driver keeps none")

    def list(self, folder: str) -> list[str]:
        return sorted({entry.path.partition("/")[0] for entry in self.walk(folder)})

    def walk(self, folder: str) -> FileEntries:
        top = f"{folder.rstrip('/')}/"
        return sorted(
            (FileEntry(path[len(top) :], size) for path, size in self._objects.list(top)),
            key=lambda entry: entry.path,
        )

    def delete(self, path: str) -> None:
        self._objects.delete(path)

    def delete_tree(self, folder: str) -> None:
        for path, _ in self._objects.list(f"{folder.rstrip('/')}/"):
            self._objects.delete(path)

    def upload(self, local: Path, path: str) -> None:
        with translating(str(local), "read"):
            data = local.read_bytes()
        self.write(path, data)

    def download(self, path: str, local: Path) -> None:
        data = self.read(path)
        with translating(str(local), "write"):
            local.write_bytes(data)
