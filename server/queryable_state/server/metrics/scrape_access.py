"""Access of scrapers: a valid token, and a grant to see every state."""

from __future__ import annotations

import asyncio
import concurrent.futures
from typing import TYPE_CHECKING

from queryable_state.server.security.access.grants import Kind
from queryable_state.wire.errors import RetryLaterError

if TYPE_CHECKING:
    from queryable_state.server.security.access.access_control import AccessControl
    from queryable_state.server.security.access.gate import Gate

_LOOP_S = 5.0


class ScrapeAccess:
    """Authorizes scrapes on any thread but the event loop's, which is that of `access`."""

    def __init__(self, access: AccessControl, loop: asyncio.AbstractEventLoop) -> None:
        self._access = access
        self._loop = loop

    def __call__(self, authorization: str) -> None:
        """Raises `AuthenticationError`, `PermissionDeniedError`, or `RetryLaterError` if the event
        loop or the keys of the token's issuer are not there within 5 s."""
        checking = asyncio.run_coroutine_threadsafe(self.check(authorization), self._loop)
        try:
            checking.result(_LOOP_S)
        except concurrent.futures.TimeoutError:
            checking.cancel()
            raise RetryLaterError(
                f"the token is not checked after {_LOOP_S:g} s: the server is busy, try again",
                retry_after_ms=1000,
            ) from None

    async def check(self, authorization: str) -> None:
        """Checks a token on the event loop; raises PermissionDeniedError without the grant."""
        access = self._access
        caller = access.cached(authorization) or await access.authenticate(authorization)
        if not caller.grants.lists_everything():
            raise access.denials.denied(caller.name, Kind.LIST, "*", "*")


def scrape_access(gate: Gate | None) -> ScrapeAccess | None:
    """Token check for scrapes, bound to the running event loop; None if authentication is off."""
    return None if gate is None else ScrapeAccess(gate.access, asyncio.get_running_loop())
