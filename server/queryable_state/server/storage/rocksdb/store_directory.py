"""Directory of one store, locked while the store is open."""

from __future__ import annotations

import fcntl
import os
import shutil
from typing import TYPE_CHECKING

from queryable_state.wire.errors import InvalidRequestError

if TYPE_CHECKING:
    from pathlib import Path

_MARKER = "queryable-state-store"
_DATABASE = "db"
_SCRATCH = "scratch"


class StoreDirectory:
    """A directory with a marker file, which this process locks, and a database.

    Files are removed only from a directory whose marker this process has locked.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        marker = path / _MARKER
        if path.exists() and not path.is_dir():
            raise InvalidRequestError(f"{path} is not a directory: give the store another path")
        if path.exists() and not marker.exists() and any(path.iterdir()):
            raise InvalidRequestError(
                f"{path} has files that are not a store's: give the store an empty directory"
            )
        path.mkdir(parents=True, exist_ok=True)
        self._marker: int | None = os.open(marker, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._marker, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self.close()
            raise InvalidRequestError(
                f"{path} belongs to a store that is open: give each store a path of its own"
            ) from None
        for left in (self.database_path, self.scratch_path):
            if left.exists():
                shutil.rmtree(left)

    @property
    def database_path(self) -> Path:
        """Path of the database; it does not exist on opening."""
        return self._path / _DATABASE

    @property
    def scratch_path(self) -> Path:
        """Path for files that are to be ingested."""
        return self._path / _SCRATCH

    def close(self) -> None:
        """Releases the lock; the files stay. Idempotent."""
        if self._marker is not None:
            os.close(self._marker)
            self._marker = None

    def remove(self) -> None:
        """Removes the directory; called after `close`."""
        if (self._path / _MARKER).exists():
            shutil.rmtree(self._path)
