"""Launcher of an executor's single state server, called by any of its Python workers."""

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

    from queryable_state.server.state_server.settings import StateServerSettings

_POLL_S = 0.005
_LOG_TAIL_BYTES = 2000
_RETRY_AFTER_MS = 500

# Servers that this process started, kept for reaping. They outlive this process.
_started: list[subprocess.Popen[bytes]] = []


def ensure_server(
    directory: Path, settings: StateServerSettings, *, timeout_s: float = 60.0
) -> ServerAddresses:
    """Returns the addresses of the server of `directory`; starts it if none lives.

    Blocking. Every process and thread of the executor gets the same server.
    `settings.directory` must be `directory`. Raises `RetryLaterError` if no server comes up,
    and `InvalidRequestError` if none can run with these settings.
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
            # Check the lock first: while it is held, the addresses are its holder's or missing.
            alive = held.is_held()
            addresses = held.addresses() if alive else None
            if addresses is not None:
                return addresses
            # It also ends if a killed worker had started another server before.
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
    """Starts a server in a session of its own; passes the secret on its standard input."""
    # The server finds this package where this process did, also in archives that Spark ships.
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
        # It ended before it read its input; the caller sees its exit code.
        pass
    return server


def _reap() -> None:
    """Collects the exit codes of servers that have ended, so that none stays a zombie."""
    _started[:] = [server for server in _started if server.poll() is None]


def _log_tail(held: ServerDirectory, *, lines: int = 0) -> str:
    """Returns the last lines of the server's log and output; `lines` 0: all that was kept."""
    try:
        tail = held.log.read_bytes()[-_LOG_TAIL_BYTES:].decode(errors="replace")
    except OSError as problem:
        return f"(no log: {problem})"
    return "\n".join(tail.splitlines()[-lines:])
