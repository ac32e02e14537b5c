"""The streams of queries one server has open."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Protocol

from queryable_state.wire.errors import Reason, RetryLaterError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from queryable_state.server.query.router import ServiceInfo


def stopping(info: ServiceInfo) -> RetryLaterError:
    """Why a stream, or a query, is refused by a server that is about to end."""
    return RetryLaterError(
        f"server {info.server_id} is stopping: ask another",
        reason=Reason.STOPPING,
        retry_after_ms=1,
    )


class OpenStream(Protocol):
    """A stream that can be brought to its end."""

    def send_away(self) -> None:
        """Tells the client to ask another server; everything is answered as before."""
        ...

    async def drain(self) -> None:
        """Returns once every query read is answered; refuses those that come later."""
        ...

    def end(self) -> None:
        """Ends the stream from this side, where the client has not."""
        ...


class OpenStreams:
    """The streams and scans of one server: up to its limit of streams, and none once it drains."""

    def __init__(self, info: ServiceInfo) -> None:
        self._info = info
        self._streams: set[OpenStream] = set()
        self._scans: set[asyncio.Timeout] = set()
        self._draining = False

    def add(self, stream: OpenStream) -> None:
        """Counts a stream in, until `discard`; raises where no more is taken."""
        self._check_serving()
        if len(self._streams) >= self._info.limits.streams:
            raise RetryLaterError(
                f"server {self._info.server_id} has {len(self._streams)} open streams, "
                "as many as it takes: share one client, or ask another server",
                reason=Reason.OVERLOADED,
                retry_after_ms=1000,
            )
        self._streams.add(stream)

    def discard(self, stream: OpenStream) -> None:
        """Counts a stream out that has ended."""
        self._streams.discard(stream)

    @asynccontextmanager
    async def scan(self) -> AsyncIterator[None]:
        """Runs one scan; raises STOPPING inside it when the time to drain is over."""
        self._check_serving()
        until_told = asyncio.timeout(None)
        try:
            async with until_told:
                self._scans.add(until_told)
                try:
                    yield
                finally:
                    self._scans.discard(until_told)
        except TimeoutError:
            if not until_told.expired():
                raise
            raise stopping(self._info) from None

    def send_away(self) -> None:
        """Tells every stream to go elsewhere; new ones are taken still."""
        for stream in tuple(self._streams):
            stream.send_away()

    async def drain(self) -> None:
        """Ends every stream once it answered what it has read, and takes no new one."""
        self._draining = True
        await asyncio.gather(*(self._end(stream) for stream in tuple(self._streams)))

    def end_scans(self) -> None:
        """Ends the scans that still run: their takers go on elsewhere by their page tokens."""
        for scan in tuple(self._scans):
            scan.reschedule(asyncio.get_running_loop().time())

    @staticmethod
    async def _end(stream: OpenStream) -> None:
        await stream.drain()
        stream.end()

    def _check_serving(self) -> None:
        """Raises once the server is about to end."""
        if self._draining:
            raise stopping(self._info)
