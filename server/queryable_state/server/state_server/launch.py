"""Launcher of an executor's single state server, called by any of its Python workers."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from queryable_state.server.state_server.base.server_directory import (
    ServerAddresses,
    ServerDirectory,
)
from queryable_state.server.state_server.base.stated_ports import require_free_ports
from queryable_state.server.state_server.failed_start import ended_error, late_error, unusable_path

if TYPE_CHECKING:
    from queryable_state.server.state_server.settings import StateServerSettings

_POLL_S = 0.005

# Servers that this process started, kept for reaping. They outlive this process.
_started: list[subprocess.Popen[bytes]] = []


def ensure_server(
    directory: Path, settings: StateServerSettings, *, timeout_s: float = 60.0
) -> ServerAddresses:
    """Returns the addresses of the server of `directory`; starts it if none lives.

    Blocking. Every process and thread of the executor gets the same server.
    `settings.directory` must be `directory`. Raises `RetryLaterError` if no server comes up but
    a later one may, and `InvalidRequestError` at once if none can: with these settings, in this
    directory, with this Python and its packages.
    """
    _reap()
    held = ServerDirectory(directory)
    try:
        return _ensured(held, settings, time.monotonic() + timeout_s, timeout_s)
    except OSError as problem:
        raise unusable_path(held, problem) from problem


def _ensured(
    held: ServerDirectory, settings: StateServerSettings, end_s: float, timeout_s: float
) -> ServerAddresses:
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
            if not alive and server is not None and server.poll() is not None:
                raise ended_error(held, server.returncode)
            if time.monotonic() >= end_s:
                raise late_error(held, timeout_s)
            if not alive and server is None:
                require_free_ports(settings)
                server = _spawn(held, settings)
            time.sleep(_POLL_S)


def _spawn(held: ServerDirectory, settings: StateServerSettings) -> subprocess.Popen[bytes]:
    """Starts a server in a session of its own; passes the secret on its standard input."""
    # The server finds this package where this process did, also in archives that Spark ships: its
    # entries of `sys.path` are relative to the executor's folder, and the server has another one.
    search_path = os.pathsep.join(str(Path(path).absolute()) for path in sys.path if path)
    environment = {**os.environ, "PYTHONPATH": search_path}
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
