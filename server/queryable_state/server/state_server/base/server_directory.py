"""The folder of one executor's state server: who holds it, and where to reach it."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import shutil
import stat
import time
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from queryable_state.server.settings import SERVER_LOG
from queryable_state.server.state_server.base.parent_process import start_ticks
from queryable_state.wire.errors import CorruptDataError, InvalidRequestError, RetryLaterError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

UNUSABLE_SETTINGS = 3
"""Exit code of a server that would end the same way if it were started again."""

_PROBE_RETRY_S = 0.005
# As an executor's folder is named: at the end, pid and start of the process it belongs to.
_OF_PROCESS = re.compile(r"queryable-state-.+-(\d+)-(\d+)")


@dataclass(frozen=True, kw_only=True)
class ServerAddresses:
    """Where one state server listens."""

    server_id: str
    pid: int
    query: str
    """HOST:PORT of `QueryableState` on the state the server owns."""
    proxy: str
    """HOST:PORT of `QueryableState` on all state."""
    backend: str
    """HOST:PORT of `StateBackend`."""


class ServerDirectory:
    """`server.lock` is locked for the life of the server, `server.json` says where it listens.

    Only the lock says that a server lives: it is gone with the process however that ended, and
    a zombie has none. What an earlier server left in `server.json` is removed before the lock
    is taken, under `start.lock`, so that with the lock held it is of the holder or not there yet.

    The folder is removed under `spawn.lock`. Who waited for that one looks whether it still has a
    name: the folder may have gone meanwhile, or be a new one.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.log = path / SERVER_LOG
        self.stores = path / "stores"
        self.copies = path / "copies"
        self.scratch = path / "scratch"
        self._lock = path / "server.lock"
        self._start_lock = path / "start.lock"
        self._spawn_lock = path / "spawn.lock"
        self._addresses = path / "server.json"

    def make(self) -> None:
        """Creates the folder, for this user only. Raises where it is not this user's alone.

        Whoever can write `server.json` decides whom tasks send the job's secret to.
        """
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            found = self.path.lstat()
        except FileNotFoundError:
            return
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o022:
            raise InvalidRequestError(
                f"{self.path} is not a folder that only this user can write: the state server's "
                "addresses in it cannot be trusted; remove it, or set another directory"
            )

    @contextlib.contextmanager
    def holding(self, timeout_s: float = 5.0) -> Iterator[None]:
        """Holds the folder as its server. Raises where another server does.

        Probes share the lock for a moment: it is asked for again until `timeout_s` is over.
        """
        self.make()
        with self._opened(self._lock) as fd:
            with self._opened(self._start_lock) as start_fd:
                fcntl.flock(start_fd, fcntl.LOCK_EX)
                if not _locked(fd, fcntl.LOCK_SH):
                    raise self._held_by_another()
                self.withdraw()
                end_s = time.monotonic() + timeout_s
                while not _locked(fd, fcntl.LOCK_EX):
                    if time.monotonic() >= end_s:
                        raise self._held_by_another()
                    time.sleep(_PROBE_RETRY_S)
            yield

    def _held_by_another(self) -> RetryLaterError:
        return RetryLaterError(
            f"another state server holds {self.path}: there is one an executor; use that one, or "
            "give this one a folder of its own"
        )

    def is_held(self) -> bool:
        """Whether a server lives here, listening or still starting."""
        try:
            with self._opened(self._lock, create=False) as fd:
                # Shared, so that probes do not take each other for a server.
                return not _locked(fd, fcntl.LOCK_SH)
        except FileNotFoundError:
            return False

    @contextlib.contextmanager
    def spawning(self) -> Iterator[None]:
        """Held by the one who starts a server; the others wait."""
        while True:
            self.make()
            with contextlib.ExitStack() as stack:
                try:
                    fd = stack.enter_context(self._opened(self._spawn_lock))
                except FileNotFoundError:
                    continue
                fcntl.flock(fd, fcntl.LOCK_EX)
                if not _has_name(fd, self._spawn_lock):
                    continue
                yield
                return

    def remove(self) -> bool:
        """Removes the folder, unless a server lives or starts there or it holds foreign files."""
        try:
            with (
                self._opened(self._spawn_lock) as spawn_fd,
                self._opened(self._lock) as fd,
            ):
                if not (_locked(spawn_fd, fcntl.LOCK_EX) and _locked(fd, fcntl.LOCK_EX)):
                    return False
                if not _has_name(spawn_fd, self._spawn_lock):
                    return False
                for folder in (self.stores, self.copies, self.scratch):
                    shutil.rmtree(folder, ignore_errors=True)
                logs = self.path.glob(f"{self.log.name}*")
                for name in (*logs, self._addresses, self._start_lock, self._lock):
                    name.unlink(missing_ok=True)
                self._spawn_lock.unlink()
                self.path.rmdir()
        except OSError:
            # Gone, another user's, or not empty.
            return False
        return True

    def remove_abandoned(self) -> None:
        """Removes folders beside this one whose server was killed and whose process has ended."""
        for path in self.path.parent.glob("queryable-state-*"):
            if path != self.path and is_of_ended_process(path.name):
                ServerDirectory(path).remove()

    def addresses(self) -> ServerAddresses | None:
        """Where the server listens; None: it does not yet."""
        try:
            return ServerAddresses(**json.loads(self._addresses.read_text()))
        except FileNotFoundError:
            return None
        except (ValueError, TypeError) as problem:
            raise CorruptDataError(
                f"{self._addresses} is not readable ({problem}): remove it, and end the state "
                "server that holds the folder"
            ) from problem

    def publish(self, addresses: ServerAddresses) -> None:
        """Says where this server listens, at once for every reader."""
        written = self._addresses.with_suffix(".tmp")
        written.write_text(json.dumps(asdict(addresses)))
        written.rename(self._addresses)

    def withdraw(self) -> None:
        """Removes what was said; idempotent."""
        self._addresses.unlink(missing_ok=True)

    @staticmethod
    @contextlib.contextmanager
    def _opened(path: Path, *, create: bool = True) -> Iterator[int]:
        fd = os.open(path, os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0), 0o600)
        try:
            yield fd
        finally:
            os.close(fd)


def is_of_ended_process(name: str) -> bool:
    """Whether a folder's name says that it belongs to a process, and that one has ended."""
    found = _OF_PROCESS.fullmatch(name)
    if found is None:
        return False
    started = start_ticks(int(found[1]))
    return not started or started != int(found[2])


def _locked(fd: int, kind: int) -> bool:
    """Takes a lock without waiting; False: somebody else has it."""
    try:
        fcntl.flock(fd, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _has_name(fd: int, path: Path) -> bool:
    """Whether an open file is still the one at `path`."""
    try:
        return os.path.samestat(os.fstat(fd), path.stat())
    except FileNotFoundError:
        return False
