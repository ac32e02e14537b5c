"""The directory of one store: ours alone while we live, and safe to empty."""

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
    """A directory with our locked marker beside the database.

    Only what lies beside a marker nobody holds is ever removed.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        marker = path / _MARKER
        if path.exists() and not path.is_dir():
            raise InvalidRequestError(f"{path} is not a directory: give the store another path")
        if path.exists() and not marker.exists() and any(path.iterdir()):
            raise InvalidRequestError(
                f"{path} holds something that is not a store's: give the store an empty directory"
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
        """Where the database goes; nothing is there on opening."""
        return self._path / _DATABASE

    @property
    def scratch_path(self) -> Path:
        """For files on their way into the database."""
        return self._path / _SCRATCH

    def close(self) -> None:
        """Give up the lock; the files stay. Idempotent."""
        if self._marker is not None:
            os.close(self._marker)
            self._marker = None

    def remove(self) -> None:
        """Remove the directory; after `close`."""
        if (self._path / _MARKER).exists():
            shutil.rmtree(self._path)
