"""The directory of one executor's state server: its lock and its addresses."""

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

from queryable_state.server.state_server.base.parent_process import start_ticks
from queryable_state.server.state_server.settings import SERVER_LOG
from queryable_state.wire.errors import CorruptDataError, InvalidRequestError, RetryLaterError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

UNUSABLE_SETTINGS = 3
"""Exit code of a server that a restart would not help."""

RESTART_MAY_HELP = 75
"""Exit code of a server that failed, but may start the next time (EX_TEMPFAIL). Any other positive
code is Python's own: the interpreter or an import failed."""

_PROBE_RETRY_S = 0.005
# The name of an executor's directory ends with the pid and start time of its process.
_OF_PROCESS = re.compile(r"queryable-state-.+-(\d+)-(\d+)")


@dataclass(frozen=True, kw_only=True)
class ServerAddresses:
    """The addresses of one state server."""

    server_id: str
    pid: int
    query: str
    """HOST:PORT of `QueryableState` for the state that the server owns."""
    proxy: str
    """HOST:PORT of `QueryableState` for all state, as a proxy."""
    backend: str
    """HOST:PORT of `StateBackend`."""
    metrics: str = ""
    """HOST:PORT of the metrics over HTTP; empty: none."""


class ServerDirectory:
    """Files of one server: `server.lock`, locked while it lives, and `server.json`, its addresses.

    Only the lock proves that a server lives: the kernel releases it with the process, and a
    zombie holds none. A server removes the `server.json` of an earlier one before it takes the
    lock, under `start.lock`: while the lock is held, `server.json` is the holder's or missing.

    The directory is removed under `spawn.lock`. A process that waited for `spawn.lock` checks
    that its open file still has a name: the directory may be removed or replaced meanwhile.
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
        """Creates the directory for this user only; raises if others can write to it.

        A user who can write `server.json` could redirect tasks, and the job's secret with them.
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
    def holding(self, timeout_s: float = 5.0) -> Iterator[ServerAddresses | None]:
        """Holds the directory's lock as its server; raises if another server holds it.

        Yields the addresses of the server before, if that was killed. Probes share the lock for a
        moment, so it is retried for `timeout_s`.
        """
        self.make()
        with self._opened(self._lock) as fd:
            with self._opened(self._start_lock) as start_fd:
                fcntl.flock(start_fd, fcntl.LOCK_EX)
                if not _locked(fd, fcntl.LOCK_SH):
                    raise self._held_by_another()
                killed = self._left_behind()
                self.withdraw()
                end_s = time.monotonic() + timeout_s
                while not _locked(fd, fcntl.LOCK_EX):
                    if time.monotonic() >= end_s:
                        raise self._held_by_another()
                    time.sleep(_PROBE_RETRY_S)
            yield killed

    def _held_by_another(self) -> RetryLaterError:
        return RetryLaterError(
            f"another state server holds {self.path}: an executor has one state server; use that "
            "one, or set another directory for this one"
        )

    def is_held(self) -> bool:
        """True if a server lives here, listening or still starting."""
        try:
            with self._opened(self._lock, create=False) as fd:
                # A shared lock, so that two probes do not mistake each other for a server.
                return not _locked(fd, fcntl.LOCK_SH)
        except FileNotFoundError:
            return False

    @contextlib.contextmanager
    def spawning(self) -> Iterator[None]:
        """Holds `spawn.lock`: one process at a time starts a server, and the others wait."""
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
        """Removes the directory, unless a server lives or starts there or it has other files."""
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
            # It is already removed, belongs to another user, or is not empty.
            return False
        return True

    def remove_abandoned(self) -> None:
        """Removes sibling directories whose server was killed and whose executor has ended."""
        for path in self.path.parent.glob("queryable-state-*"):
            if path != self.path and is_of_ended_process(path.name):
                ServerDirectory(path).remove()

    def addresses(self) -> ServerAddresses | None:
        """Returns the addresses of the server; None before it listens."""
        try:
            return ServerAddresses(**json.loads(self._addresses.read_text()))
        except FileNotFoundError:
            return None
        except (ValueError, TypeError) as problem:
            raise CorruptDataError(
                f"{self._addresses} is not readable ({problem}): remove it, and stop the state "
                "server that holds the directory"
            ) from problem

    def _left_behind(self) -> ServerAddresses | None:
        """The addresses that a killed server left; None if it left none that can be read."""
        try:
            return self.addresses()
        except CorruptDataError:
            return None

    def publish(self, addresses: ServerAddresses) -> None:
        """Writes the addresses of this server, atomically for every reader."""
        written = self._addresses.with_suffix(".tmp")
        written.write_text(json.dumps(asdict(addresses)))
        written.rename(self._addresses)

    def withdraw(self) -> None:
        """Removes the published addresses; idempotent."""
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
    """True if a directory's name has the pid of a process, and that process has ended."""
    found = _OF_PROCESS.fullmatch(name)
    if found is None:
        return False
    started = start_ticks(int(found[1]))
    return not started or started != int(found[2])


def _locked(fd: int, kind: int) -> bool:
    """Takes a lock without waiting; returns False if another process holds it."""
    try:
        fcntl.flock(fd, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _has_name(fd: int, path: Path) -> bool:
    """True if an open file is still the one at `path`."""
    try:
        return os.path.samestat(os.fstat(fd), path.stat())
    except FileNotFoundError:
        return False
