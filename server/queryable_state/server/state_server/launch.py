"""Launcher of an executor's single state server, called by any of its Python workers."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from queryable_state.server.process.child_module import start_module
from queryable_state.server.state_server.base.server_directory import (
    ServerAddresses,
    ServerDirectory,
)
from queryable_state.server.state_server.base.stated_ports import require_free_ports
from queryable_state.server.state_server.failed_start import ended_error, late_error, unusable_path

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable
    from pathlib import Path

    from queryable_state.server.state_server.settings import StateServerSettings

_POLL_S = 0.005

# Servers that this process started, kept for reaping. They outlive this process.
_started: list[subprocess.Popen[str]] = []


def ensure_server(
    directory: Path,
    settings: StateServerSettings | Callable[[], StateServerSettings],
    *,
    timeout_s: float = 60.0,
) -> ServerAddresses:
    """Returns the addresses of the server of `directory`; starts it if none lives.

    Blocking. Every process and thread of the executor gets the same server.
    `settings.directory` must be `directory`; a function that returns the settings is called only
    if a server must be started. Raises `RetryLaterError` if no server comes up but
    a later one may, and `InvalidRequestError` at once if none can: with these settings, in this
    directory, with this Python and its packages.
    """
    _reap()
    held = ServerDirectory(directory)
    try:
        if held.is_held() and (addresses := held.addresses()) is not None:
            return addresses
        if callable(settings):
            settings = settings()
        return _ensured(held, settings, time.monotonic() + timeout_s, timeout_s)
    except OSError as problem:
        raise unusable_path(held, problem) from problem


def _ensured(
    held: ServerDirectory, settings: StateServerSettings, end_s: float, timeout_s: float
) -> ServerAddresses:
    with held.spawning():
        server: subprocess.Popen[str] | None = None
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


def _spawn(held: ServerDirectory, settings: StateServerSettings) -> subprocess.Popen[str]:
    """Starts a server, which writes everything into its log."""
    with held.log.open("a") as log:
        server = start_module(
            "queryable_state.server.state_server",
            log=log,
            given=settings.to_json(),
            piped=False,
            folder=held.path,
        )
    _started.append(server)
    return server


def _reap() -> None:
    """Collects the exit codes of servers that have ended, so that none stays a zombie."""
    _started[:] = [server for server in _started if server.poll() is None]
