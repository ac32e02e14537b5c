"""The query service of this process, called without a connection."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, NoReturn

import grpc.aio

from queryable_state.server.security.access.caller import caller_of_call
from queryable_state.v1 import errors_pb2
from queryable_state.wire.errors import InternalError, QueryableStateError, QueryTimeoutError
from queryable_state.wire.status import ERROR_METADATA

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from queryable_state.server.query.service import QueryableStateService
    from queryable_state.server.security.access.gate import Gate
    from queryable_state.wire.located_state import LocatedState

# Names the calls to the gate, which takes the methods of open services for granted.
_METHOD = "/rest"


class EnoughError(grpc.aio.BaseError):
    """Raised by a consumer of a streaming call to end it early."""


class InProcessService:
    """Calls the servicer behind the gRPC port: same grants, limits, refusals and deadlines.

    Call `authenticate` first in each task. Errors are raised as `QueryableStateError`.
    """

    def __init__(
        self, service: QueryableStateService, gate: Gate | None, *, default_deadline_ms: int
    ) -> None:
        """`gate` checks tokens; None: authentication is off."""
        self._service = service
        self._gate = gate
        self._default_deadline_ms = default_deadline_ms

    @property
    def is_open(self) -> bool:
        """True if authentication is off."""
        return self._gate is None

    async def authenticate(self, authorization: str) -> None:
        """Sets the caller of the current task from its token; raises `AuthenticationError`."""
        if self._gate is not None:
            metadata = (("authorization", authorization),)
            caller_of_call.set(await self._gate.caller(_METHOD, metadata))

    async def located(self, request: Any) -> LocatedState:
        """The state that a request names; raises the same refusals as the request."""
        return await self._service.locate(request.job, request.state_name)

    async def call(self, method: str, request: Any, timeout_ms: int | None) -> Any:
        """The response of a unary method; `timeout_ms` None: the server's default."""
        timeout_s = (timeout_ms or self._default_deadline_ms) / 1000
        try:
            async with asyncio.timeout(timeout_s):
                return await self._method(method)(request, _Call(timeout_s))
        except TimeoutError as late:
            if isinstance(late, QueryableStateError):
                raise
            raise QueryTimeoutError(f"{method} was not answered within {timeout_s:g} s") from None

    async def stream(
        self,
        method: str,
        request: Any,
        write: Callable[[Any], Awaitable[None]],
        timeout_ms: int | None = None,
        *,
        peer: str = "",
    ) -> None:
        """Calls a method with a stream of responses, each passed to `write`.

        `timeout_ms` None: until the server or the caller ends it. `peer` names the connection of
        the caller, for the limits of one connection.
        `write` may raise `EnoughError`, which ends the call without an error.
        """
        timeout_s = None if timeout_ms is None else timeout_ms / 1000
        try:
            async with asyncio.timeout(timeout_s):
                await self._method(method)(request, _Call(timeout_s, write, peer))
        except EnoughError:
            return
        except TimeoutError as late:
            if isinstance(late, QueryableStateError):
                raise
            raise QueryTimeoutError(f"{method} was not answered within {timeout_s:g} s") from None

    def _method(self, name: str) -> Callable[[Any, _Call], Awaitable[Any]]:
        method: Callable[[Any, _Call], Awaitable[Any]] = getattr(self._service, name)
        return method


class _Call:
    """The context of a servicer: the part of `grpc.aio`'s context that our servicers use."""

    def __init__(
        self,
        timeout_s: float | None,
        write: Callable[[Any], Awaitable[None]] | None = None,
        peer: str = "",
    ) -> None:
        self.peer = peer
        self._loop = asyncio.get_running_loop()
        self._until_s = None if timeout_s is None else self._loop.time() + timeout_s
        self._write = write

    def time_remaining(self) -> float | None:
        """Seconds until the deadline; None if there is none."""
        return None if self._until_s is None else max(0.0, self._until_s - self._loop.time())

    async def send_initial_metadata(self, metadata: object) -> None:
        """Does nothing: there is no connection."""

    async def write(self, message: Any) -> None:
        """Hands a message of a streaming method to the caller."""
        assert self._write is not None
        await self._write(message)

    async def abort(
        self,
        code: grpc.StatusCode,
        details: str = "",
        trailing_metadata: Sequence[tuple[str, bytes]] = (),
    ) -> NoReturn:
        """Raises the error with which the call ends."""
        for key, value in trailing_metadata:
            if key == ERROR_METADATA:
                raise QueryableStateError.from_proto(errors_pb2.Error.FromString(value))
        raise InternalError(f"{code.name}: {details}")
