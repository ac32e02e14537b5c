"""The file in which a driver offers the job's secret to processes that a person starts."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from pathlib import Path

_FOLDER_PREFIX = "queryable-state-"
_FILE_NAME = "secret"


class SecretFile:
    """A file that only its owner can read, in a folder of its own.

    Held under `flock` while valid. The next driver of this user removes an unlocked file, which
    a killed driver has left.
    """

    def __init__(self, secret: str) -> None:
        _remove_abandoned()
        self._folder = Path(tempfile.mkdtemp(prefix=_FOLDER_PREFIX))
        self.path = self._folder / _FILE_NAME
        written = self._folder / "new"
        self._descriptor = os.open(written, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        fcntl.flock(self._descriptor, fcntl.LOCK_EX)
        os.write(self._descriptor, secret.encode())
        # Only now it has the name that others look for.
        written.rename(self.path)

    def remove(self) -> None:
        """Removes file and folder; may be repeated."""
        if self._descriptor >= 0:
            shutil.rmtree(self._folder, ignore_errors=True)
            os.close(self._descriptor)
            self._descriptor = -1


def _remove_abandoned() -> None:
    for path in Path(tempfile.gettempdir()).glob(f"{_FOLDER_PREFIX}*/{_FILE_NAME}"):
        try:
            with path.open() as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                path.unlink()
                path.parent.rmdir()
        except OSError:
            # In use, gone, or another user's.
            continue
