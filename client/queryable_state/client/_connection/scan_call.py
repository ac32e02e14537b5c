"""One call of a scan to one server."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import grpc.aio

from queryable_state.client._errors import ClientClosedError, is_being_cancelled
from queryable_state.v1 import query_pb2
from queryable_state.wire.errors import QueryTimeoutError, RetryLaterError

if TYPE_CHECKING:
    from queryable_state.client._connection.server_connection import ServerConnection
    from queryable_state.client._routing.connection_pool import ConnectionPool


class ScanCall:
    """The messages of one `ScanKvState`, which the server sends as they are taken."""

    def __init__(
        self, pool: ConnectionPool, server: ServerConnection, request: query_pb2.ScanKvStateRequest
    ) -> None:
        self._pool = pool
        self._server = server
        self._call = server.stub.ScanKvState(request)

    async def next(self, timeout_s: float) -> query_pb2.ScanKvStateResponse:
        """The next message; raises the server's refusal, or that none comes."""
        try:
            async with asyncio.timeout(timeout_s):
                message = await self._call.read()
        except TimeoutError:
            raise QueryTimeoutError(
                f"{self._server.address} did not go on with a scan within {timeout_s:g} s: allow "
                "more time (timeout_s), or find out why it is slow"
            ) from None
        except grpc.aio.AioRpcError as refused:
            raise self._pool.refusal(refused, self._server, timeout_s) from refused
        except asyncio.CancelledError:
            self._pool.raise_if_closed()
            if self._call.cancelled() and not is_being_cancelled():
                raise ClientClosedError(
                    "the scan was closed while this page was waited for: open another"
                ) from None
            raise
        if isinstance(message, query_pb2.ScanKvStateResponse):
            return message
        raise RetryLaterError(
            f"{self._server.address} ended a scan before its last key", retry_after_ms=100
        )

    def cancel(self) -> None:
        """Ends the scan on the server, too. Idempotent."""
        self._call.cancel()
