"""Brings up the one state server of an executor, from any of its Python workers."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from typing import TYPE_CHECKING

from queryable_state.server.state_server.base.server_directory import (
    UNUSABLE_SETTINGS,
    ServerAddresses,
    ServerDirectory,
)
from queryable_state.server.state_server.base.stated_ports import require_free_ports
from queryable_state.wire.errors import InvalidRequestError, RetryLaterError

if TYPE_CHECKING:
    from pathlib import Path

    from queryable_state.server.settings import StateServerSettings

_POLL_S = 0.005
_LOG_TAIL_BYTES = 2000
_RETRY_AFTER_MS = 500

# Servers this process started: kept to be reaped, they live on without it.
_started: list[subprocess.Popen[bytes]] = []


def ensure_server(
    directory: Path, settings: StateServerSettings, *, timeout_s: float = 60.0
) -> ServerAddresses:
    """The addresses of the server of `directory`, started first where none lives.

    Blocking; from any process and thread of the executor, which then all get the same one.
    `settings.directory` must be `directory`. Raises `RetryLaterError` where no server comes up,
    `InvalidRequestError` where none ever will with these settings.
    """
    _reap()
    held = ServerDirectory(directory)
    end_s = time.monotonic() + timeout_s
    if held.is_held():
        addresses = held.addresses()
        if addresses is not None:
            return addresses
    with held.spawning():
        server: subprocess.Popen[bytes] | None = None
        while True:
            # The lock comes first: held, the addresses are those of its holder or missing.
            alive = held.is_held()
            addresses = held.addresses() if alive else None
            if addresses is not None:
                return addresses
            # It also ends where another one came first, left starting by a worker since killed.
            ended = not alive and server is not None and server.poll() is not None
            if ended and server is not None and server.returncode == UNUSABLE_SETTINGS:
                raise InvalidRequestError(
                    f"the state server of {directory} cannot run with the settings of this "
                    f"application; its log ends with:\n{_log_tail(held, lines=1)}"
                )
            if ended or time.monotonic() >= end_s:
                raise RetryLaterError(
                    f"the state server of {directory} "
                    + ("ended while it started" if ended else f"is not up after {timeout_s:g} s")
                    + f"; its log ends with:\n{_log_tail(held)}",
                    retry_after_ms=_RETRY_AFTER_MS,
                )
            if not alive and server is None:
                require_free_ports(settings)
                server = _spawn(held, settings)
            time.sleep(_POLL_S)


def _spawn(held: ServerDirectory, settings: StateServerSettings) -> subprocess.Popen[bytes]:
    """Starts a server in a session of its own; the secret goes over its standard input."""
    # Where this process found the package, archives shipped by the engine included.
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    with held.log.open("ab") as log:
        server = subprocess.Popen(
            [sys.executable, "-P", "-m", "queryable_state.server.state_server"],
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            cwd=held.path,
            env=environment,
            start_new_session=True,
        )
    _started.append(server)
    assert server.stdin is not None
    try:
        with server.stdin as stdin:
            stdin.write(settings.to_json().encode())
    except BrokenPipeError:
        # It ended before it read; its exit is seen by the caller.
        pass
    return server


def _reap() -> None:
    """Takes the exit codes of servers that ended, so that none stays a zombie."""
    _started[:] = [server for server in _started if server.poll() is None]


def _log_tail(held: ServerDirectory, *, lines: int = 0) -> str:
    """The end of what the server logged or printed; 0 lines: as many as there are."""
    try:
        tail = held.log.read_bytes()[-_LOG_TAIL_BYTES:].decode(errors="replace")
    except OSError as problem:
        return f"(no log: {problem})"
    return "\n".join(tail.splitlines()[-lines:])
