"""`queryable-state proxy`: run a standalone proxy."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from queryable_state.server.cli.arguments import whole_uri
from queryable_state.server.cli.driver_arguments import (
    SECRET_VARIABLE,
    coordinator_addresses,
    secret_of,
)
from queryable_state.server.cli.process_settings import add_settings, process_settings
from queryable_state.server.cli.serving_process import run_until_stopped, tune, tune_after_start
from queryable_state.server.cli.start_checks import check_start
from queryable_state.server.settings.proxy_settings import ProxySettings

if TYPE_CHECKING:
    import argparse

    from queryable_state.server.process.loop_watchdog import LoopWatchdog
    from queryable_state.server.serving.graceful_shutdown import GracefulShutdown


def add_command(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds the command's arguments."""
    proxy = commands.add_parser(
        "proxy",
        help="run a standalone proxy",
        description="Answers queries for all state of one application by forwarding them to the "
        "owners. Finds the driver of the job by its endpoint file (--endpoint), again when it was "
        "restarted, or at a fixed address (--coordinator) with the job's secret from --secret-file "
        f"or {SECRET_VARIABLE}. "
        "`queryable-state config proxy` shows the settings and where each comes from.",
    )
    add_settings(proxy, ProxySettings)
    proxy.set_defaults(run=_run)


def checked_proxy(settings: ProxySettings) -> ProxySettings:
    """The settings with the addresses and the secret that the process uses.

    Raises `InvalidRequestError` if the process cannot start with them, as far as that can be known
    without a call.
    """
    endpoint = whole_uri(settings.endpoint) if settings.endpoint else ""
    settings = dataclasses.replace(
        settings,
        coordinators=coordinator_addresses(settings.coordinators, endpoint),
        secret=secret_of(
            settings.secret_file or None, required=not endpoint, default=settings.secret
        ),
        endpoint=endpoint,
    )
    check_start(settings, "proxy port")
    return settings


def _run(options: argparse.Namespace) -> int:
    tune()
    return _serve(checked_proxy(process_settings(ProxySettings, "proxy", options)))


def _serve(settings: ProxySettings) -> int:
    from queryable_state.server.query.proxy.proxy_server import ProxyServer

    async def serve(shutdown: GracefulShutdown, watchdog: LoopWatchdog) -> None:
        async with ProxyServer(settings, shutdown=shutdown, watchdog=watchdog) as proxy:
            # On stdout for scripts; the log has it too.
            print(f"proxy at {proxy.address}", flush=True)
            if proxy.web_address:
                print(f"web at {proxy.web_address}", flush=True)
            tune_after_start()
            await proxy.wait_stopped()

    return run_until_stopped("proxy", serve, settings=settings)
