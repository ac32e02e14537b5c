"""The folder of one executor's state server: who holds it, and where to reach it."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import time
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from queryable_state.wire.errors import CorruptDataError, RetryLaterError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_PROBE_RETRY_S = 0.005


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
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.log = path / "server.log"
        self.stores = path / "stores"
        self._lock = path / "server.lock"
        self._start_lock = path / "start.lock"
        self._spawn_lock = path / "spawn.lock"
        self._addresses = path / "server.json"

    def make(self) -> None:
        """Creates the folder, for this user only."""
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)

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
        if not self._lock.exists():
            return False
        with self._opened(self._lock) as fd:
            # Shared, so that probes do not take each other for a server.
            return not _locked(fd, fcntl.LOCK_SH)

    @contextlib.contextmanager
    def spawning(self) -> Iterator[None]:
        """Held by the one who starts a server; the others wait."""
        self.make()
        with self._opened(self._spawn_lock) as fd:
            fcntl.flock(fd, fcntl.LOCK_EX)
            yield

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
    def _opened(path: Path) -> Iterator[int]:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            yield fd
        finally:
            os.close(fd)


def _locked(fd: int, kind: int) -> bool:
    """Takes a lock without waiting; False: somebody else has it."""
    try:
        fcntl.flock(fd, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
