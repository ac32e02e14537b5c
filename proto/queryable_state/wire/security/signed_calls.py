"""Signatures of internal calls: proof of the job's secret, which never travels."""

from __future__ import annotations

import hmac
import itertools
import os
import secrets
import time
from typing import TYPE_CHECKING, Any, TypeVar, cast

from queryable_state.wire.errors import InvalidRequestError
from queryable_state.wire.packaging.protocol_versions import INTERNAL
from queryable_state.wire.security.authorization import AUTHORIZATION, Signed

if TYPE_CHECKING:
    from collections.abc import Callable

    from queryable_state.wire.errors import QueryableStateError

COORDINATOR = "queryable_state.internal.v1.Coordinator"
BACKEND = "queryable_state.internal.v1.StateBackend"
"""Full names of the services whose every call is signed."""

_PURPOSE = "queryable-state signed call 1"

_Stub = TypeVar("_Stub")


def wall_ms() -> int:
    """The wall clock in milliseconds since 1970."""
    return time.time_ns() // 1_000_000


def signature(secret: bytes, call: Signed, method: str, audience: str) -> str:
    """The MAC of a call over everything else in `call`, its full method name and its server."""
    text = (
        f"{_PURPOSE}\n{call.min_version}-{call.max_version}\n{method}\n{audience}\n{call.time_ms}\n"
        f"{call.session}\n{call.number}"
    )
    return hmac.digest(secret, text.encode(), "sha256").hex()


class CallSigner:
    """Signer of the calls of this process to one server; `Credentials`. Thread-safe.

    Every call has a number of its own, so a server refuses the second use of a signature. A
    forked process gets numbers of its own.
    """

    def __init__(
        self, secret: str, audience: str = "", *, clock_ms: Callable[[], int] = wall_ms
    ) -> None:
        """`audience`: the server for which the calls are signed, by the name that it checks;
        empty: the coordinator. Raises `InvalidRequestError` for an empty secret."""
        if not secret.strip():
            raise InvalidRequestError("the job's secret must not be empty")
        self._secret = secret.encode()
        self.audience = audience
        self._clock_ms = clock_ms
        self._ahead_ms = 0
        self._begin_session()

    def to(self, audience: str) -> CallSigner:
        """A signer with the same secret for another server."""
        return CallSigner(self._secret.decode(), audience, clock_ms=self._clock_ms)

    def use(self, secret: str) -> None:
        """Signs with another secret from now on: a driver that starts again has another one."""
        self._secret = secret.encode()

    def header(self, method: str) -> str:
        """The `authorization` of one call; each is good for one call only."""
        if self._pid != os.getpid():
            self._begin_session()
        unsigned = Signed(
            INTERNAL.oldest,
            INTERNAL.newest,
            max(0, self._clock_ms() + self._ahead_ms),
            self._session,
            next(self._numbers),
            "",
        )
        return f"{unsigned}{signature(self._secret, unsigned, method, self.audience)}"

    def metadata(self, method: str) -> tuple[tuple[str, str], ...]:
        """The metadata of one call of a method, named `/package.Service/Method`."""
        return ((AUTHORIZATION, self.header(method)),)

    def corrects(self, error: QueryableStateError) -> bool:
        """Adopts the server's clock if the refusal carries it; True: repeat the call, once."""
        if not error.server_time_ms:
            return False
        self._ahead_ms = error.server_time_ms - self._clock_ms()
        return True

    def _begin_session(self) -> None:
        self._pid = os.getpid()
        self._session = secrets.token_hex(8)
        self._numbers = itertools.count(1)


class _SignedStub:
    """A generated stub whose methods add the signature; made by `signed_stub`."""

    def __init__(self, stub: Any, service: str, signer: CallSigner) -> None:
        self._stub = stub
        self._service = service
        self._signer = signer

    def __getattr__(self, name: str) -> Any:
        rpc, method = getattr(self._stub, name), f"/{self._service}/{name}"
        signer = self._signer

        def call(*request: Any, **options: Any) -> Any:
            return rpc(*request, metadata=signer.metadata(method), **options)

        # Found without `__getattr__` from now on.
        setattr(self, name, call)
        return call


def signed_stub(stub: _Stub, service: str, signer: CallSigner) -> _Stub:
    """A stub of `service` (its full name) that signs each call; the calls take no `metadata`."""
    return cast("_Stub", _SignedStub(stub, service, signer))
