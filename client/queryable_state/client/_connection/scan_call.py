"""One `ScanKvState` call to one server."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Protocol

import grpc.aio

from queryable_state.client._errors import ClientClosedError, is_being_cancelled
from queryable_state.v1 import query_pb2
from queryable_state.wire.errors import QueryTimeoutError, RetryLaterError
from queryable_state.wire.security.authorization import call_metadata

if TYPE_CHECKING:
    from queryable_state.client._connection.server_connection import ServerConnection
    from queryable_state.wire.errors import QueryableStateError


_METHOD = "/queryable_state.v1.QueryableState/ScanKvState"


class CallErrors(Protocol):
    """Translation of the ends of gRPC calls into errors of this library."""

    def refusal(
        self, refused: grpc.aio.AioRpcError, server: ServerConnection, timeout_s: float
    ) -> QueryableStateError:
        """Returns the error that the caller of a failed call gets."""

    def raise_if_closed(self) -> None:
        """Raises `ClientClosedError` if closing the client has cancelled the call."""


class ScanCall:
    """Stream of the pages of one scan; the server sends a page when the client reads it."""

    def __init__(
        self, errors: CallErrors, server: ServerConnection, request: query_pb2.ScanKvStateRequest
    ) -> None:
        self._errors = errors
        self._server = server
        self._credentials = server.credentials
        self._call = server.stub.ScanKvState(
            request, metadata=call_metadata(self._credentials, _METHOD)
        )

    async def next(self, timeout_s: float) -> query_pb2.ScanKvStateResponse:
        """Returns the next page.

        Raises the server's refusal, or `QueryTimeoutError` if none arrives within `timeout_s`.
        """
        try:
            async with asyncio.timeout(timeout_s):
                message = await self._call.read()
        except TimeoutError:
            raise QueryTimeoutError(
                f"{self._server.address} sent no page of a scan within {timeout_s:g} s: increase "
                "timeout_s, or find out why the server is slow"
            ) from None
        except grpc.aio.AioRpcError as refused:
            error = self._errors.refusal(refused, self._server, timeout_s)
            if self._credentials is not None and self._credentials.corrects(error):
                # Another call, which continues behind the last page, sends another token.
                error = RetryLaterError(error.message, retry_after_ms=1)
            raise error from refused
        except asyncio.CancelledError:
            self._errors.raise_if_closed()
            if self._call.cancelled() and not is_being_cancelled():
                raise ClientClosedError(
                    "the scan was closed while a task waited for its next page: open another scan"
                ) from None
            raise
        if isinstance(message, query_pb2.ScanKvStateResponse):
            return message
        raise RetryLaterError(
            f"{self._server.address} ended a scan before its last key", retry_after_ms=100
        )

    def cancel(self) -> None:
        """Ends the scan on client and server. Idempotent."""
        self._call.cancel()
