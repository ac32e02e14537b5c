"""gRPC channel to one server."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, NamedTuple

from queryable_state.v1 import query_pb2_grpc
from queryable_state.wire.calls.forks import at_fork, keep
from queryable_state.wire.frames.query_stream import CHANNEL_OPTIONS
from queryable_state.wire.security.tls_probe import TlsDiagnosis

if TYPE_CHECKING:
    import grpc.aio

    from queryable_state.wire.security.connector import Connector

_GRACE_S = 30.0


class _Opened(NamedTuple):
    channel: grpc.aio.Channel
    stub: query_pb2_grpc.QueryableStateAsyncStub
    generation: int
    """The TLS files with which it was opened, as the connector counts them."""


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
        self._opened: _Opened | None = self._open()
        at_fork(self)

    @property
    def is_closed(self) -> bool:
        """True once `aclose` was called."""
        return self._opened is None

    def current(self) -> _Opened | None:
        """The channel and stub of the next call; None once closed."""
        opened = self._opened
        if opened is not None and opened.generation != self._connector.generation:
            closing = asyncio.get_running_loop().create_task(opened.channel.close(_GRACE_S))
            self._closing.add(closing)
            closing.add_done_callback(self._closing.discard)
            opened = self._opened = self._open()
        return opened

    def leave_to_parent(self) -> None:
        """Has no channel any more, in a forked process."""
        keep(self._opened, *self._closing)
        self._opened = None

    async def aclose(self) -> None:
        """Closes the channel; idempotent."""
        opened, self._opened = self._opened, None
        for closing in tuple(self._closing):
            closing.cancel()
        if opened is not None:
            await opened.channel.close()

    def _open(self) -> _Opened:
        generation = self._connector.generation
        channel = self._connector.channel(self._address, CHANNEL_OPTIONS)
        return _Opened(channel, query_pb2_grpc.QueryableStateStub(channel), generation)
