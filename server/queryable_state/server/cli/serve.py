"""`queryable-state serve`: answer queries from a checkpoint, without the job."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import logging
import time
from typing import TYPE_CHECKING

from queryable_state.cli.progress import ProgressBar
from queryable_state.cli.tables import bytes_text, percent_text
from queryable_state.server.cli.arguments import whole_uri
from queryable_state.server.cli.process_settings import add_settings, process_settings
from queryable_state.server.cli.serving_process import run_until_stopped, tune, tune_after_start
from queryable_state.server.cli.start_checks import check_start
from queryable_state.server.settings.checkpoint_server_settings import CheckpointServerSettings

if TYPE_CHECKING:
    import argparse

    from queryable_state.server.checkpoint_server.server import CheckpointServer
    from queryable_state.server.process.loop_watchdog import LoopWatchdog
    from queryable_state.server.serving.graceful_shutdown import GracefulShutdown

_log = logging.getLogger(__name__)

_LOOK_S = 0.2
_LOG_S = 5.0


def add_command(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds the command's arguments."""
    parser = commands.add_parser(
        "serve",
        help="answer queries from a checkpoint or savepoint",
        description="Answers the queries of every client from a completed checkpoint or savepoint "
        "of a job that does not run. Each answer names the checkpoint; values expire as of its "
        "batch. The command loads all state first and does not read the files while it serves. "
        "`queryable-state config serve` shows the settings and where each comes from.",
    )
    add_settings(parser, CheckpointServerSettings)
    parser.set_defaults(run=_run)


def checked_serve(settings: CheckpointServerSettings) -> CheckpointServerSettings:
    """The settings with a whole URI of the checkpoint.

    Raises `InvalidRequestError` if the process cannot start with them, as far as that can be known
    without reading the checkpoint.
    """
    check_start(settings, "checkpoint server port")
    return dataclasses.replace(settings, checkpoint=whole_uri(settings.checkpoint))


def _run(options: argparse.Namespace) -> int:
    tune()
    return _serve(checked_serve(process_settings(CheckpointServerSettings, "serve", options)))


def _serve(settings: CheckpointServerSettings) -> int:
    from queryable_state.server.checkpoint_server.server import CheckpointServer

    async def serve(shutdown: GracefulShutdown, _watchdog: LoopWatchdog) -> None:
        server = CheckpointServer(settings, shutdown=shutdown)
        showing = asyncio.create_task(_show(server))
        try:
            await server.__aenter__()
        finally:
            showing.cancel()
            await asyncio.wait([showing])
        async with contextlib.aclosing(server):
            metadata = server.completed.metadata
            # On stdout for scripts; the log has it too.
            print(
                f"{server.completed.uri} (job {metadata.job_name}, {metadata.job_id.hex()}, batch "
                f"{metadata.version}) at {server.address}",
                flush=True,
            )
            tune_after_start()
            await server.wait_stopped()

    return run_until_stopped("checkpoint server", serve, settings=settings)


async def _show(server: CheckpointServer) -> None:
    """Shows how far the state is loaded, until it is cancelled: as a bar, or in the log."""
    begun_s = told_s = time.monotonic()
    total = 0
    with ProgressBar("loading") as bar:
        while True:
            await asyncio.sleep(_LOOK_S)
            progress = server.progress()
            total = max(total, sum(each.bytes for each in progress))
            done = total - sum(each.bytes - each.bytes_done for each in progress)
            bar.show(done, total, f"of {bytes_text(total)}" if total else "")
            if not bar.is_shown and total and time.monotonic() - told_s >= _LOG_S:
                told_s = time.monotonic()
                _log.info(
                    "loading %s: %s of %s after %.0f s",
                    server.settings.checkpoint,
                    percent_text(done, total),
                    bytes_text(total),
                    told_s - begun_s,
                )
