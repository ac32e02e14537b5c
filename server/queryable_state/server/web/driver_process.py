"""The main function of the web process of a driver."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from queryable_state.server.cli.serving_process import run_until_stopped, tune_after_start
from queryable_state.server.query.proxy.proxy_server import ProxyServer
from queryable_state.server.state_server.base.parent_process import stopping_with
from queryable_state.server.web.web_process import READY, WRONG_SETTINGS, settings_of
from queryable_state.wire.errors import InvalidRequestError, QueryableStateError

if TYPE_CHECKING:
    from queryable_state.server.process.loop_watchdog import LoopWatchdog
    from queryable_state.server.serving.graceful_shutdown import GracefulShutdown


def main(settings_json: str) -> int:
    """Serves until a signal, or until the driver has ended; returns the exit code."""
    settings, watched_pid = settings_of(settings_json)

    async def serve(shutdown: GracefulShutdown, watchdog: LoopWatchdog) -> None:
        async with (
            stopping_with(watched_pid, shutdown),
            ProxyServer(settings, shutdown=shutdown, watchdog=watchdog) as proxy,
        ):
            sys.stdout.write(f"{READY}{proxy.web_address}\n")
            sys.stdout.flush()
            tune_after_start()
            await proxy.wait_stopped()

    try:
        return run_until_stopped("web process", serve, settings=settings)
    except QueryableStateError as refusal:
        sys.stderr.write(f"the web process cannot run: {refusal}\n")
        return WRONG_SETTINGS if isinstance(refusal, InvalidRequestError) else 1
