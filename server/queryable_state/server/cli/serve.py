"""`queryable-state serve`: answer queries from a checkpoint, without the job."""

from __future__ import annotations

from typing import TYPE_CHECKING

from queryable_state.server.cli.arguments import (
    access_settings,
    add_access,
    add_listening,
    add_log_level,
    add_storage_options,
    check_listening,
    lame_duck_s,
    storage_options,
    whole_uri,
)
from queryable_state.server.cli.serving_process import run_until_stopped, tune, tune_after_start
from queryable_state.server.cli.tls_arguments import add_serving_tls, serving_tls
from queryable_state.server.config.backends import BACKENDS

if TYPE_CHECKING:
    import argparse

    from queryable_state.server.checkpoint_server.settings import CheckpointServerSettings
    from queryable_state.server.serving.graceful_shutdown import GracefulShutdown


def add_command(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds the command's arguments."""
    parser = commands.add_parser(
        "serve",
        help="answer queries from a checkpoint or savepoint",
        description="Answers the queries of every client from a completed checkpoint or savepoint "
        "of a job that does not run. Each answer names the checkpoint; values expire as of its "
        "batch. The command loads all state first and does not read the files while it serves.",
    )
    parser.add_argument(
        "--checkpoint",
        required=True,
        metavar="URI",
        help="folder of a checkpoint (chk-<n>) or savepoint, or a state root for its newest intact "
        "checkpoint: a path, file:///..., s3://...",
    )
    add_access(parser)
    add_listening(parser)
    add_serving_tls(parser)
    add_log_level(parser)
    parser.add_argument(
        "--backend",
        choices=BACKENDS,
        default="",
        help="backend of the loaded state: memory or disk (default: that of the job)",
    )
    parser.add_argument(
        "--directory",
        default="",
        metavar="DIR",
        help="folder for the loaded state (default: the system's temporary folder)",
    )
    add_storage_options(parser)
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    check_listening(options)
    tune()
    from queryable_state.server.checkpoint_server.settings import CheckpointServerSettings

    return _serve(
        CheckpointServerSettings(
            checkpoint=whole_uri(options.checkpoint),
            storage_options=storage_options(options),
            backend=options.backend,
            directory=options.directory,
            host=options.host,
            ports=options.port,
            frame_ports=options.frame_port,
            advertised=options.advertise,
            advertised_frame_port=options.advertise_frame_port,
            plain_grpc=options.plain_grpc,
            lame_duck_s=lame_duck_s(options),
            tls=serving_tls(options),
            access=access_settings(options),
        ),
        options.log_level,
    )


def _serve(settings: CheckpointServerSettings, log_level: str) -> int:
    from queryable_state.server.checkpoint_server.server import CheckpointServer

    async def serve(shutdown: GracefulShutdown) -> None:
        async with CheckpointServer(settings, shutdown=shutdown) as server:
            metadata = server.completed.metadata
            # On stdout for scripts; the log has it too.
            print(
                f"{server.completed.uri} (job {metadata.job_name}, {metadata.job_id.hex()}, batch "
                f"{metadata.version}) at {server.address}",
                flush=True,
            )
            tune_after_start()
            await server.wait_stopped()

    return run_until_stopped("checkpoint server", serve, log_level=log_level)
