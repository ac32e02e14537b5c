"""`queryable-state serve`: answer queries from a checkpoint, without the job."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import logging
import time
from functools import partial
from typing import TYPE_CHECKING

from queryable_state.cli.progress import ProgressBar
from queryable_state.cli.tables import bytes_text, percent_text
from queryable_state.server.cli.arguments import secret_in, whole_uri
from queryable_state.server.cli.process_settings import add_settings, process_settings
from queryable_state.server.cli.serving_process import run_until_stopped, tune, tune_after_start
from queryable_state.server.cli.start_checks import check_start
from queryable_state.server.settings.checkpoint_server_settings import CheckpointServerSettings

if TYPE_CHECKING:
    import argparse

    from queryable_state.server.checkpoint_server.server import CheckpointServer
    from queryable_state.server.native_state.server.native_server import NativeServer
    from queryable_state.server.process.loop_watchdog import LoopWatchdog
    from queryable_state.server.serving.graceful_shutdown import GracefulShutdown

_log = logging.getLogger(__name__)

_LOOK_S = 0.2
_LOG_S = 5.0


def add_command(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds the command's arguments."""
    parser = commands.add_parser(
        "serve",
        help="answer queries from a checkpoint: ours, or of any Structured Streaming query",
        description="With --checkpoint: answers the queries of every client from a completed "
        "checkpoint or savepoint of a job that does not run. Each answer names the checkpoint; "
        "values expire as of its batch. The command loads all state first and does not read the "
        "files while it serves. With --spark-checkpoint: answers from the state that Spark keeps "
        "itself, of a query that knows nothing of this package, running or not; --follow serves "
        "each batch once it is committed. "
        "`queryable-state config serve` shows the settings and where each comes from.",
    )
    add_settings(parser, CheckpointServerSettings)
    parser.set_defaults(run=_run)


def checked_serve(settings: CheckpointServerSettings) -> CheckpointServerSettings:
    """The settings with a whole URI of the checkpoint, and the secret of `secret_file`.

    Raises `InvalidRequestError` if the process cannot start with them, as far as that can be known
    without reading the checkpoint.
    """
    check_start(settings, "checkpoint server port")
    if settings.secret_file:
        settings = dataclasses.replace(settings, secret=secret_in(settings.secret_file))
    if settings.spark_checkpoint:
        return dataclasses.replace(settings, spark_checkpoint=whole_uri(settings.spark_checkpoint))
    return dataclasses.replace(settings, checkpoint=whole_uri(settings.checkpoint))


def _run(options: argparse.Namespace) -> int:
    tune()
    settings = checked_serve(process_settings(CheckpointServerSettings, "serve", options))
    return run_until_stopped("checkpoint server", partial(_serve, settings), settings=settings)


async def _serve(
    settings: CheckpointServerSettings, shutdown: GracefulShutdown, watchdog: LoopWatchdog
) -> None:
    from queryable_state.server.state_server.base.parent_process import stopping_with

    async with stopping_with(settings.stop_with_pid, shutdown):
        serve = _serve_spark if settings.spark_checkpoint else _serve_ours
        await serve(settings, shutdown, watchdog)


async def _serve_ours(
    settings: CheckpointServerSettings, shutdown: GracefulShutdown, watchdog: LoopWatchdog
) -> None:
    from queryable_state.server.checkpoint_server.server import CheckpointServer

    server = CheckpointServer(settings, shutdown=shutdown, watchdog=watchdog)
    showing = asyncio.create_task(_show(server))
    try:
        await server.__aenter__()
    finally:
        showing.cancel()
        await asyncio.wait([showing])
    async with contextlib.aclosing(server):
        metadata = server.completed.metadata
        _print_served(
            f"{server.completed.uri} (job {metadata.job_name}, {metadata.job_id.hex()}, batch "
            f"{metadata.version})",
            server,
        )
        await server.wait_stopped()


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


async def _serve_spark(
    settings: CheckpointServerSettings, shutdown: GracefulShutdown, watchdog: LoopWatchdog
) -> None:
    from queryable_state.server.native_state.server.native_server import NativeServer

    async with NativeServer(settings, shutdown=shutdown, watchdog=watchdog) as server:
        served = server.served
        _print_served(
            f"{served.uri} (query {server.name}, {served.query_id.hex()}, batch "
            f"{served.facts.batch}, states {', '.join(sorted(served.states.registrations))})",
            server,
        )
        await server.wait_stopped()


def _print_served(what: str, server: CheckpointServer | NativeServer) -> None:
    # On stdout for scripts; the log has it too.
    print(f"{what} at {server.address}", flush=True)
    if server.web_address:
        print(f"web at {server.web_address}", flush=True)
    tune_after_start()
