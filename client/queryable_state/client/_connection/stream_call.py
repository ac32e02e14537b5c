"""One call whose answer is a stream of messages from one server."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

import grpc.aio

from queryable_state.client._errors import ClientClosedError, is_being_cancelled
from queryable_state.client._process import forked
from queryable_state.v1 import query_pb2, watch_pb2
from queryable_state.wire.calls.forks import at_fork, keep
from queryable_state.wire.errors import QueryTimeoutError, RetryLaterError
from queryable_state.wire.security.authorization import call_metadata

if TYPE_CHECKING:
    from queryable_state.client._connection.server_connection import ServerConnection
    from queryable_state.wire.errors import QueryableStateError

_Message = TypeVar("_Message", query_pb2.ScanKvStateResponse, watch_pb2.WatchKvStateResponse)


class CallErrors(Protocol):
    """Translation of the ends of gRPC calls into errors of this library."""

    def refusal(
        self, refused: grpc.aio.AioRpcError, server: ServerConnection, timeout_s: float
    ) -> QueryableStateError:
        """Returns the error that the caller of a failed call gets."""

    def raise_if_closed(self) -> None:
        """Raises `ClientClosedError` if closing the client has cancelled the call."""


class StreamCall(Generic[_Message]):
    """Stream of the messages of one scan or watch; the server sends one when the client reads."""

    def __init__(
        self,
        errors: CallErrors,
        server: ServerConnection,
        call: grpc.aio.UnaryStreamCall[Any, _Message],
        what: str,
    ) -> None:
        """`what`: scan or watch, for error texts."""
        self._errors = errors
        self._server = server
        self._what = what
        self._call: Any = call
        """None: it is the call of the parent of this process."""
        at_fork(self)

    @classmethod
    def scan(
        cls, errors: CallErrors, server: ServerConnection, request: query_pb2.ScanKvStateRequest
    ) -> StreamCall[query_pb2.ScanKvStateResponse]:
        """Starts a scan."""
        call = server.stub.ScanKvState(request, metadata=_metadata(server, "ScanKvState"))
        return StreamCall(errors, server, call, "scan")

    @classmethod
    def watch(
        cls, errors: CallErrors, server: ServerConnection, request: watch_pb2.WatchKvStateRequest
    ) -> StreamCall[watch_pb2.WatchKvStateResponse]:
        """Starts a watch."""
        call = server.stub.WatchKvState(request, metadata=_metadata(server, "WatchKvState"))
        return StreamCall(errors, server, call, "watch")

    async def next(self, timeout_s: float) -> _Message:
        """Returns the next message.

        Raises the server's refusal, or `QueryTimeoutError` if none arrives within `timeout_s`.
        """
        call = self._call
        if call is None:
            raise forked()
        server, credentials = self._server, self._server.credentials
        try:
            async with asyncio.timeout(timeout_s):
                message = await call.read()
        except TimeoutError:
            raise QueryTimeoutError(
                f"{server.address} sent no message of a {self._what} within {timeout_s:g} s: "
                "increase timeout_s, or find out why the server is slow"
            ) from None
        except grpc.aio.AioRpcError as refused:
            error = self._errors.refusal(refused, server, timeout_s)
            if credentials is not None and credentials.corrects(error):
                # Another call, which continues behind this one, sends another token.
                error = RetryLaterError(error.message, retry_after_ms=1)
            raise error from refused
        except asyncio.CancelledError:
            self._errors.raise_if_closed()
            if call.cancelled() and not is_being_cancelled():
                raise ClientClosedError(
                    f"the {self._what} was closed while a task waited for its next message: open "
                    "another one"
                ) from None
            raise
        if message is grpc.aio.EOF:
            raise RetryLaterError(
                f"{server.address} ended a {self._what} before its last message",
                retry_after_ms=100,
            )
        received: _Message = message
        return received

    def cancel(self) -> None:
        """Ends the call on client and server. Idempotent."""
        if self._call is not None:
            self._call.cancel()

    def leave_to_parent(self) -> None:
        """Neither reads nor ends the call in a forked process."""
        keep(self._call)
        self._call = None


def _metadata(server: ServerConnection, method: str) -> tuple[tuple[str, str], ...] | None:
    return call_metadata(server.credentials, f"/queryable_state.v1.QueryableState/{method}")
