"""Metrics of the process, for scrapers of the web port."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from aiohttp import web

from queryable_state.server.metrics.registry import CONTENT_TYPE
from queryable_state.server.metrics.scrape_access import scrape_access
from queryable_state.server.web.http.authorization import authorization_of

if TYPE_CHECKING:
    from queryable_state.server.metrics.registry import MetricsRegistry
    from queryable_state.server.security.access.gate import Gate

# Each takes a thread and the interpreter for some milliseconds; others wait.
_MOST = 4


class Scrapes:
    """Answers `GET /metrics`, for callers with a grant to see every state."""

    def __init__(self, metrics: MetricsRegistry, gate: Gate | None) -> None:
        """`gate`: None answers everyone. Created on the event loop."""
        self._metrics = metrics
        self._access = scrape_access(gate)
        self._running = asyncio.Semaphore(_MOST)

    async def answer(self, request: web.Request) -> web.Response:
        """The metrics as text; raises the refusal of the caller."""
        if self._access is not None:
            await self._access.check(authorization_of(request))
        async with self._running:
            text = await asyncio.to_thread(self._metrics.text)
        return web.Response(body=text, headers={"Content-Type": CONTENT_TYPE})
