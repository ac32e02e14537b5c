"""The streams of queries one server has open."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from queryable_state.wire.errors import Reason, RetryLaterError

if TYPE_CHECKING:
    from queryable_state.server.query.router import ServiceInfo


def stopping(info: ServiceInfo) -> RetryLaterError:
    """Why a stream, or a query, is refused by a server that is about to end."""
    return RetryLaterError(f"server {info.server_id} is stopping: ask another", retry_after_ms=200)


class OpenStream(Protocol):
    """A stream that can be brought to its end."""

    async def drain(self) -> None:
        """Returns once every query read is answered; refuses those that come later."""
        ...

    def end(self) -> None:
        """Ends the stream from this side, where the client has not."""
        ...


class OpenStreams:
    """Takes streams up to the server's limit, and none once it drains."""

    def __init__(self, info: ServiceInfo) -> None:
        self._info = info
        self._streams: set[OpenStream] = set()
        self._draining = False

    def check_serving(self) -> None:
        """Raises once the server is about to end."""
        if self._draining:
            raise stopping(self._info)

    def add(self, stream: OpenStream) -> None:
        """Counts a stream in, until `discard`; raises where no more is taken."""
        self.check_serving()
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

    async def drain(self) -> None:
        """Ends every stream once it answered what it has read, and takes no new one."""
        self._draining = True
        for stream in tuple(self._streams):
            await stream.drain()
            stream.end()
