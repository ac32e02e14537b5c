"""`queryable-state proxy`: run a standalone proxy."""

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
)
from queryable_state.server.cli.driver_arguments import (
    SECRET_VARIABLE,
    add_driver,
    coordinators_of,
    endpoint_of,
    secret_of,
)
from queryable_state.server.cli.serving_process import run_until_stopped, tune, tune_after_start
from queryable_state.server.cli.tls_arguments import add_serving_tls, serving_tls
from queryable_state.server.query.proxy.settings import ProxySettings

if TYPE_CHECKING:
    import argparse

    from queryable_state.server.serving.graceful_shutdown import GracefulShutdown


def add_command(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds the command's arguments."""
    proxy = commands.add_parser(
        "proxy",
        help="run a standalone proxy",
        description="Answers queries for all state of one application by forwarding them to the "
        "owners. Finds the driver of the job by its endpoint file (--endpoint), again when it was "
        "restarted, or at a fixed address (--coordinator) with the job's secret from --secret-file "
        f"or {SECRET_VARIABLE}.",
    )
    add_driver(proxy)
    proxy.add_argument(
        "--wait-for-driver",
        action="store_true",
        help="start although no driver is found yet; health is NOT_SERVING until one is",
    )
    add_access(proxy)
    add_listening(proxy)
    add_serving_tls(proxy)
    add_log_level(proxy)
    add_storage_options(proxy)
    proxy.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    settings = _settings(options)
    tune()
    return _serve(settings, options.log_level)


def _settings(options: argparse.Namespace) -> ProxySettings:
    check_listening(options)
    return ProxySettings(
        coordinators=coordinators_of(options),
        secret=secret_of(options.secret_file, required=not options.endpoint),
        endpoint=endpoint_of(options),
        storage_options=storage_options(options),
        wait_for_driver=options.wait_for_driver,
        host=options.host,
        ports=options.port,
        frame_ports=options.frame_port,
        advertised=options.advertise,
        advertised_frame_port=options.advertise_frame_port,
        plain_grpc=options.plain_grpc,
        lame_duck_s=lame_duck_s(options),
        tls=serving_tls(options),
        access=access_settings(options),
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
