"""The main function of a state server process."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import sys
from pathlib import Path

import uvloop

from queryable_state.server.process.logs import log_to_file
from queryable_state.server.process.loop_watchdog import LoopWatchdog
from queryable_state.server.process.memory import MemoryTrimmer
from queryable_state.server.process.open_files import allow_many_files
from queryable_state.server.serving.graceful_shutdown import GracefulShutdown
from queryable_state.server.state_server.base.parent_process import ParentProcess
from queryable_state.server.state_server.base.server_directory import (
    RESTART_MAY_HELP,
    UNUSABLE_SETTINGS,
    ServerAddresses,
    ServerDirectory,
)
from queryable_state.server.state_server.failed_start import is_permanent
from queryable_state.server.state_server.server import StateServer
from queryable_state.server.state_server.settings import StateServerSettings
from queryable_state.wire.errors import InvalidRequestError, QueryableStateError

_log = logging.getLogger(__name__)


def main(settings_json: str) -> int:
    """Runs one state server until it stops; returns the exit code.

    Logs go to `log_file` of the settings; failures before that go to stderr. An orderly stop
    removes the directory; after any other end, its log says why.
    """
    try:
        settings = StateServerSettings.from_json(settings_json)
        directory = ServerDirectory(Path(settings.directory))
        directory.make()
        settings.log_file.parent.mkdir(parents=True, exist_ok=True)
        log_to_file(settings.log_file, settings.logs)
    except (QueryableStateError, OSError) as problem:
        sys.stderr.write(f"state server: {problem}\n")
        return _exit_code(problem)
    _log.info("the log of this state server is %s", settings.log_file)
    try:
        with directory.holding() as replaced:
            directory.remove_abandoned()
            _tune()
            uvloop.run(_run(settings, directory, replaced))
    except QueryableStateError as refusal:
        _log.error("the state server cannot run: %s", refusal)
        if settings.logs.log_dir:
            # The launcher shows the output of the process.
            sys.stderr.write(f"the state server cannot run: {refusal}\n")
        return _exit_code(refusal)
    except Exception as failure:  # noqa: BLE001 - the log is the only place to report it
        _log.exception("the state server failed")
        return _exit_code(failure)
    directory.remove()
    return 0


def _exit_code(failure: Exception) -> int:
    if isinstance(failure, InvalidRequestError):
        return UNUSABLE_SETTINGS
    if isinstance(failure, OSError) and is_permanent(failure):
        return UNUSABLE_SETTINGS
    return RESTART_MAY_HELP


def _tune() -> None:
    """Sets interpreter options that only a process of our own may change."""
    allow_many_files()
    gc.freeze()
    gc.set_threshold(100_000, 50, 1000)
    # While queries wait, the background thread holds the interpreter lock at most this long.
    sys.setswitchinterval(2e-4)


async def _run(
    settings: StateServerSettings, directory: ServerDirectory, replaced: ServerAddresses | None
) -> None:
    shutdown = GracefulShutdown()
    shutdown.on_signals()
    async with contextlib.AsyncExitStack() as stack:
        stack.callback(directory.withdraw)
        if settings.watched_pid:
            watched = ParentProcess(settings.watched_pid, settings.watched_start_ticks)
            stack.callback(watched.close)
            watching = asyncio.create_task(_stop_after(watched, shutdown))
            stack.push_async_callback(asyncio.wait, [watching])
            stack.callback(watching.cancel)
        stack.enter_context(MemoryTrimmer())
        watchdog = await stack.enter_async_context(LoopWatchdog("state server"))
        async with StateServer(
            settings, shutdown=shutdown, watchdog=watchdog, replaced=replaced
        ) as server:
            if not shutdown.stopping.is_set():
                directory.publish(server.addresses)
                _log.info("ready: %s", server.addresses)
            await shutdown.stopping.wait()
            # Withdrawn before the coordinator learns that this server leaves: a restarted driver
            # with another secret must wait for the next server instead of finding this one.
            directory.withdraw()
            await server.wait_stopped()


async def _stop_after(watched: ParentProcess, shutdown: GracefulShutdown) -> None:
    await watched.wait()
    _log.info("process %d has ended: stopping this server", watched.pid)
    shutdown.stop()
