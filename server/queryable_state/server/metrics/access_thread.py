"""Access control of a process without an event loop, on a thread of its own."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING

from queryable_state.server.metrics.scrape_access import ScrapeAccess
from queryable_state.server.security.access.access_control import AccessControl

if TYPE_CHECKING:
    from queryable_state.server.security.access.access_settings import AccessSettings


class AccessThread:
    """Authorizes scrapes by an access file, and follows its changes until `close`."""

    def __init__(self, settings: AccessSettings) -> None:
        """Raises `InvalidRequestError` if the access file or the keys of JWTs cannot be used."""
        access = AccessControl(settings)
        self._loop = asyncio.new_event_loop()
        self.authorize = ScrapeAccess(access, self._loop)
        """Raises the refusal of the caller with this header `Authorization`."""
        self._following = self._loop.create_task(access.run())
        self._thread = threading.Thread(target=self._run, name="access control", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Ends the thread; idempotent."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._following.cancel)
            self._thread.join()

    def _run(self) -> None:
        try:
            self._loop.run_until_complete(asyncio.wait([self._following]))
        finally:
            self._loop.close()
