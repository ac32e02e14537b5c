"""Steps of the start of a server of checkpointed state."""

from __future__ import annotations

import asyncio
import fcntl
import os
import shutil
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from queryable_state.wire.errors import CheckpointError, InvalidRequestError

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from queryable_state.server.serving.graceful_shutdown import GracefulShutdown

_T = TypeVar("_T")

_PREFIX = "queryable-state-serve-"
_LOCK = "lock"
# A folder this young may belong to a process that has not locked it yet.
_STARTING_S = 60.0


async def unless_stopped(
    loading: Coroutine[Any, Any, _T], shutdown: GracefulShutdown, uri: str
) -> _T:
    """The result of `loading`; cancels it and raises at the first step of a shutdown."""
    task = asyncio.create_task(loading)
    stopping = asyncio.create_task(shutdown.leaving.wait())
    try:
        await asyncio.wait({task, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise CheckpointError(f"stopped before {uri} was loaded")
        return task.result()
    finally:
        task.cancel()
        stopping.cancel()
        await asyncio.wait({task, stopping})


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
