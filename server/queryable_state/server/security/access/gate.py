"""Gate of one public port: authenticates its callers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from queryable_state.server.security.access.caller import INTERNAL
from queryable_state.wire.errors import QueryableStateError
from queryable_state.wire.security.authorization import FRAME_HELLO, authorization_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from queryable_state.server.security.access.access_control import AccessControl
    from queryable_state.server.security.access.caller import Caller
    from queryable_state.server.security.signature_check import SignatureCheck

    Metadata = Iterable[tuple[str, str | bytes]] | None

_SIGNED = "Signed "


class Gate:
    """Authenticates gRPC calls before their requests are read, and hellos of frame connections.

    Clients have tokens, for which it asks the access control of the process. Parts of the
    application sign their calls, for this port alone.
    """

    def __init__(
        self,
        access: AccessControl,
        signatures: SignatureCheck | None = None,
        *,
        open_services: Collection[str] = (),
    ) -> None:
        """`signatures`: of this port; None: no part of the application calls it.
        `open_services`: full names of gRPC services that answer everyone."""
        self.access = access
        self.signatures = signatures
        self._open = tuple(f"/{service}/" for service in open_services)

    def caller_now(self, method: str, metadata: Metadata) -> Caller | None:
        """The caller, if that takes no work; None: call `caller`. Thread-safe."""
        if method.startswith(self._open):
            return INTERNAL
        return self.access.cached(_header(metadata))

    async def caller(self, method: str, metadata: Metadata) -> Caller:
        """The caller; raises `AuthenticationError`, or `RetryLaterError` without keys of JWTs."""
        if method.startswith(self._open):
            return INTERNAL
        header = _header(metadata)
        if self._is_signed(header, method):
            return INTERNAL
        return await self.access.authenticate(header)

    def caller_of_hello(self, authorization: str) -> Caller:
        """The caller of a frame connection, by the authorization in its hello.

        Raises `AuthenticationError`, or `RetryLaterError` while keys of JWTs are fetched.
        """
        if self._is_signed(authorization, FRAME_HELLO):
            return INTERNAL
        return self.access.authenticate_now(authorization)

    def _is_signed(self, authorization: str, method: str) -> bool:
        """False for a call that is not signed; raises if its signature is not genuine."""
        if self.signatures is None or not authorization.startswith(_SIGNED):
            return False
        try:
            self.signatures.check(authorization, method)
        except QueryableStateError:
            self.access.denials.counts["signature"] += 1
            raise
        return True


def _header(metadata: Metadata) -> str:
    found = authorization_of(metadata)
    return found.decode("ascii", "replace") if isinstance(found, bytes) else found
