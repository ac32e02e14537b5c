"""Folder of the files of one server of checkpointed state."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
import time
from pathlib import Path

from queryable_state.wire.errors import InvalidRequestError

_PREFIX = "queryable-state-serve-"
_LOCK = "lock"
# A folder this young may belong to a process that has not locked it yet.
_STARTING_S = 60.0


class StateFolder:
    """A new folder for the files of one server, locked while the process lives."""

    def __init__(self, directory: str) -> None:
        """Makes it in `directory`, or in the system's temporary folder if that is empty.

        Removes the folders that servers which were killed have left there. Raises
        `InvalidRequestError` if it cannot be made.
        """
        try:
            self._folder = tempfile.TemporaryDirectory(prefix=_PREFIX, dir=directory or None)
            self.path = Path(self._folder.name)
            self._lock = os.open(self.path / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            fcntl.flock(self._lock, fcntl.LOCK_EX)
        except OSError as problem:
            raise InvalidRequestError(
                f"cannot load the state into {directory or tempfile.gettempdir()}: {problem}: "
                "choose another directory"
            ) from problem
        for other in self.path.parent.glob(f"{_PREFIX}*"):
            if other != self.path:
                _remove_unless_locked(other)

    def remove(self) -> None:
        """Removes the folder; called once."""
        os.close(self._lock)
        self._folder.cleanup()


def _remove_unless_locked(folder: Path) -> None:
    """Removes a folder whose process has ended; it may be of another container of the machine."""
    try:
        if time.time() - (folder / _LOCK).stat().st_mtime < _STARTING_S:
            return
        lock = os.open(folder / _LOCK, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return
    finally:
        os.close(lock)
    shutil.rmtree(folder, ignore_errors=True)
