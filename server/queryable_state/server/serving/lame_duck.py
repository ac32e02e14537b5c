"""Lame-duck period: a leaving server is NOT_SERVING but still answers, so that clients move."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from queryable_state.server.serving.graceful_shutdown import GracefulShutdown
    from queryable_state.server.serving.query_server import QueryServer

_log = logging.getLogger(__name__)


async def be_lame_duck(
    shutdown: GracefulShutdown, servers: Iterable[QueryServer], grace_s: float
) -> None:
    """Waits for the first step of the shutdown, then for the grace time, then stops."""
    await shutdown.leaving.wait()
    if shutdown.stopping.is_set():
        return
    _log.info("lame duck for %g s: NOT_SERVING, and still answering", grace_s)
    for server in servers:
        server.leave()
    async with shutdown.limited(grace_s):
        await shutdown.stopping.wait()
    shutdown.stop()
