"""Gate of a public gRPC port: authenticates calls before their requests are read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from queryable_state.server.security.access.access_control import authorization_of
from queryable_state.server.security.access.caller import INTERNAL
from queryable_state.wire.errors import AuthenticationError

if TYPE_CHECKING:
    from collections.abc import Collection

    from queryable_state.server.security.access.access_control import AccessControl
    from queryable_state.server.security.access.caller import Caller


class Gate:
    """Authenticates the callers of gRPC calls. `open_services` need no authentication."""

    def __init__(self, access: AccessControl, open_services: Collection[str]) -> None:
        self._access = access
        self._open = tuple(f"/{service}/" for service in open_services)

    def caller_now(self, method: str, metadata: object) -> Caller | None:
        """The caller, if that takes no work; None: call `caller`. Thread-safe."""
        if method.startswith(self._open):
            return INTERNAL
        try:
            return self._access.cached(authorization_of(metadata))
        except AuthenticationError:
            return None

    async def caller(self, method: str, metadata: object) -> Caller:
        """The caller; raises `AuthenticationError`, or `RetryLaterError` without keys of JWTs."""
        if method.startswith(self._open):
            return INTERNAL
        return await self._access.authenticate(authorization_of(metadata), method)
