"""`queryable-state proxy`: run a standalone proxy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from queryable_state.server.cli.arguments import (
    SECRET_VARIABLE,
    add_listening,
    add_log_level,
    check_listening,
    coordinator_address,
    lame_duck_s,
    secret_of,
)
from queryable_state.server.cli.serving_process import run_until_stopped, tune, tune_after_start
from queryable_state.server.serving.listen_settings import COORDINATOR_PORT
from queryable_state.server.settings.proxy_settings import ProxySettings

if TYPE_CHECKING:
    import argparse

    from queryable_state.server.serving.graceful_shutdown import GracefulShutdown


def add_command(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds the command's arguments."""
    proxy = commands.add_parser(
        "proxy",
        help="run a standalone proxy",
        description="Answers queries for all state of one application by forwarding them to the "
        f"owners. The secret of the job comes from --secret-file, or from {SECRET_VARIABLE}.",
    )
    proxy.add_argument(
        "--coordinator",
        required=True,
        metavar="HOST:PORT",
        help=f"coordinator in the driver of the job; its default port is {COORDINATOR_PORT}",
    )
    add_listening(proxy)
    add_log_level(proxy)
    proxy.add_argument("--secret-file", metavar="FILE", help="file with the job's secret")
    proxy.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    settings = _settings(options)
    tune()
    return _serve(settings, options.log_level)


def _settings(options: argparse.Namespace) -> ProxySettings:
    check_listening(options)
    return ProxySettings(
        coordinator_address=coordinator_address(options.coordinator),
        secret=secret_of(options.secret_file),
        host=options.host,
        ports=options.port,
        frame_ports=options.frame_port,
        advertised=options.advertise,
        advertised_frame_port=options.advertise_frame_port,
        plain_grpc=options.plain_grpc,
        lame_duck_s=lame_duck_s(options),
    )


def _serve(settings: ProxySettings, log_level: str) -> int:
    from queryable_state.server.query.proxy.proxy_server import ProxyServer

    async def serve(shutdown: GracefulShutdown) -> None:
        async with ProxyServer(settings, shutdown=shutdown) as proxy:
            # On stdout for scripts; the log has it too.
            print(f"proxy at {proxy.address}", flush=True)
            tune_after_start()
            await proxy.wait_stopped()

    return run_until_stopped("proxy", serve, log_level=log_level)
