"""gRPC channel to one server."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from queryable_state.v1 import query_pb2_grpc
from queryable_state.wire.frames.query_stream import CHANNEL_OPTIONS
from queryable_state.wire.security.tls_probe import TlsDiagnosis

if TYPE_CHECKING:
    import grpc.aio

    from queryable_state.wire.security.connector import Connector

_GRACE_S = 30.0


class ServerChannel:
    """The channel to the server at an address, and its stub; opened anew when TLS files change.

    Calls of a replaced channel go on for up to 30 s. gRPC closes a connection with the last
    reference to its channel: callers must not keep one.
    """

    def __init__(self, address: str, connector: Connector) -> None:
        self.diagnosis = TlsDiagnosis(address, connector)
        self._address = address
        self._connector = connector
        self._closing: set[asyncio.Task[None]] = set()
        self._open()

    @property
    def is_closed(self) -> bool:
        """True once `aclose` was called."""
        return self._channel is None

    def current(self) -> tuple[grpc.aio.Channel, query_pb2_grpc.QueryableStateAsyncStub] | None:
        """Channel and stub for the next call; None once closed."""
        if self._channel is not None and self._generation != self._connector.generation:
            closing = asyncio.get_running_loop().create_task(self._channel.close(_GRACE_S))
            self._closing.add(closing)
            closing.add_done_callback(self._closing.discard)
            self._open()
        return None if self._channel is None or self._stub is None else (self._channel, self._stub)

    async def aclose(self) -> None:
        """Closes the channel; idempotent."""
        channel, self._channel, self._stub = self._channel, None, None
        for closing in tuple(self._closing):
            closing.cancel()
        if channel is not None:
            await channel.close()

    def _open(self) -> None:
        self._generation = self._connector.generation
        self._channel: grpc.aio.Channel | None = self._connector.channel(
            self._address, CHANNEL_OPTIONS
        )
        self._stub: query_pb2_grpc.QueryableStateAsyncStub | None = (
            query_pb2_grpc.QueryableStateStub(self._channel)
        )
