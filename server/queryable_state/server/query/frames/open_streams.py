"""Registry of a server's open streams and scans."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Protocol

from queryable_state.wire.errors import Reason, RetryLaterError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from queryable_state.server.query.router import ServiceInfo


def stopping(info: ServiceInfo) -> RetryLaterError:
    """Returns the refusal of a stream or query by a server that is stopping."""
    return RetryLaterError(
        f"server {info.server_id} is stopping: use another server",
        reason=Reason.STOPPING,
        retry_after_ms=1,
    )


class OpenStream(Protocol):
    """A stream that a stopping server can drain and end."""

    def send_away(self) -> None:
        """Tells the client to use another server; queries are still answered."""
        ...

    async def drain(self) -> None:
        """Returns once every received query is answered; refuses later ones."""
        ...

    def end(self) -> None:
        """Ends the stream, unless the client already has."""
        ...


class OpenStreams:
    """The open streams and scans of one server, limited in number; none once it drains."""

    def __init__(self, info: ServiceInfo) -> None:
        self._info = info
        self._streams: set[OpenStream] = set()
        self._scans: set[asyncio.Timeout] = set()
        self._draining = False

    def add(self, stream: OpenStream) -> None:
        """Registers a stream until `discard`; raises `RetryLaterError` at the limit."""
        self._check_serving()
        limits = self._info.limits
        if len(self._streams) >= min(limits.streams, limits.connections):
            raise RetryLaterError(
                f"server {self._info.server_id} has {len(self._streams)} frame connections, which "
                "is its limit (spark.queryable_state.streams and spark.queryable_state."
                "connections): share one client, or use another server",
                reason=Reason.OVERLOADED,
                retry_after_ms=1000,
            )
        self._streams.add(stream)

    def discard(self, stream: OpenStream) -> None:
        """Unregisters a stream that has ended."""
        self._streams.discard(stream)

    @asynccontextmanager
    async def scan(self) -> AsyncIterator[None]:
        """Registers one scan; raises STOPPING inside it when the time to drain is over."""
        self._check_serving()
        until_told, traffic = asyncio.timeout(None), self._info.traffic
        try:
            async with until_told:
                self._scans.add(until_told)
                traffic.scans += 1
                traffic.open_scans += 1
                try:
                    yield
                finally:
                    self._scans.discard(until_told)
                    traffic.open_scans -= 1
        except TimeoutError:
            if not until_told.expired():
                raise
            raise stopping(self._info) from None

    def send_away(self) -> None:
        """Tells every client to use another server; new streams are still accepted."""
        for stream in tuple(self._streams):
            stream.send_away()

    async def drain(self) -> None:
        """Ends every stream once its received queries are answered; accepts no new one."""
        self._draining = True
        await asyncio.gather(*(self._end(stream) for stream in tuple(self._streams)))

    def end_scans(self) -> None:
        """Ends the running scans; their clients continue elsewhere by page token."""
        for scan in tuple(self._scans):
            scan.reschedule(asyncio.get_running_loop().time())

    @staticmethod
    async def _end(stream: OpenStream) -> None:
        await stream.drain()
        stream.end()

    def _check_serving(self) -> None:
        """Raises `RetryLaterError` (STOPPING) once the server is stopping."""
        if self._draining:
            raise stopping(self._info)
