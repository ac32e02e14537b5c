"""Inbox of a watch: the changes that have arrived for it, and the stream from which they come."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING

from queryable_state.client._watches.change import Change
from queryable_state.client._watches.position import Position

if TYPE_CHECKING:
    from queryable_state.client._queries.lookups import KeyBatcher
    from queryable_state.client._watches.received_change import ReceivedChange
    from queryable_state.client._watches.watch_stream import WatchStream
    from queryable_state.client._watches.watch_streams import WatchStreams
    from queryable_state.client._watches.watched_keys import WatchedKeys

# An inbox with more unread changes leaves a shared stream, which waits for nobody.
_MOST_UNREAD = 512
_MOST_UNREAD_BYTES = 1024 * 1024


class WatchInbox:
    """Takes the changes of one watch from a stream of its own or from one that it shares.

    Implements `WatchReader`. Event loop only.
    """

    def __init__(
        self,
        streams: WatchStreams,
        batcher: KeyBatcher,
        keys: WatchedKeys,
        reconnect_timeout_s: float,
    ) -> None:
        self.batcher = batcher
        self.keys = keys
        self.reconnect_timeout_s = reconnect_timeout_s
        self._streams = streams
        self._stream: WatchStream | None = None
        self._start = None if keys.after_batch is None else Position(keys.after_batch)
        """Where it began to read its stream."""
        self._unread: deque[Change | ReceivedChange] = deque()
        self._unread_bytes = 0
        self._gap_until = -1
        self._failure: BaseException | None = None
        self._woken = asyncio.Event()
        self._connecting = asyncio.Lock()
        self._was_open = False

    @property
    def position(self) -> Position | None:
        """Every change up to here has arrived; None: it is not open yet."""
        read = None if self._stream is None else self._stream.position
        return max((each for each in (self._start, read) if each is not None), default=None)

    @property
    def has_unread(self) -> bool:
        """Whether changes have arrived that the caller has not read."""
        return bool(self._unread)

    async def open(self) -> None:
        """Waits until every change from now on arrives; raises what refuses it. Idempotent."""
        if not self._was_open:
            await self._connect()

    async def wait(self) -> None:
        """Waits until something has happened; raises why the stream has ended, once."""
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure
        if self._stream is None:
            await self._connect()
            return
        self._woken.clear()
        self._stream.read_on()
        await self._woken.wait()

    def pop(self) -> Change:
        """The first unread change; raises `CorruptDataError` if it cannot be decoded."""
        change = self._unread.popleft()
        if isinstance(change, Change):
            return change
        self._unread_bytes -= change.size_bytes
        return change.decoded()

    def close(self) -> None:
        """Drops what is unread and ends the stream, if no other watch reads it. Idempotent."""
        self._unread.clear()
        self._leave()
        self._woken.set()

    def begin(self, stream: WatchStream) -> None:
        """Reads a stream from now on, behind what has arrived."""
        self._start = self.position
        self._leave()
        self._stream = stream

    def joined(self, stream: WatchStream) -> None:
        """A stream that has this watch is open."""
        if stream is self._stream:
            return
        if self._stream is None:
            # Closed, or too slow for shared streams.
            stream.leave(self)
        else:
            self.begin(stream)

    def lacks(self, received: ReceivedChange) -> bool:
        """Whether a change of its stream is not one that had arrived by another stream before."""
        return self._start is None or received.position > self._start

    def take(self, stream: WatchStream, received: ReceivedChange) -> None:
        """A change has arrived."""
        self._unread.append(received)
        self._unread_bytes += received.size_bytes
        self._woken.set()
        is_slow = len(self._unread) > _MOST_UNREAD or self._unread_bytes > _MOST_UNREAD_BYTES
        if is_slow and stream.is_shared:
            self._start = received.position
            self._leave()

    def take_gap(self, first_batch: int, last_batch: int) -> None:
        """The servers do not have the changes of these batches any more."""
        first = max(first_batch, self._gap_until + 1)
        if self._start is not None:
            first = max(first, self._start.batch + 1)
        if first <= last_batch:
            self._gap_until = last_batch
            self._unread.append(Change.gap(first, last_batch))
            self._woken.set()

    def failed(self, stream: WatchStream, failure: BaseException) -> None:
        """Its stream has ended; the next wait raises why, and one behind that tries again."""
        if stream is self._stream:
            self._start, self._stream = self.position, None
            self._failure = failure
            self._woken.set()

    async def _connect(self) -> None:
        """Opens a stream, unless another task has done so in the meantime."""
        async with self._connecting:
            if self._stream is not None:
                return
            patience_s = self.reconnect_timeout_s
            if not self._was_open:
                patience_s = self.batcher.options.timeout_s
            try:
                await self._streams.open(self, timeout_s=patience_s)
            except asyncio.CancelledError:
                self._leave()
                raise
            except Exception:
                # Raised here, and not once more by the next wait.
                self._failure = None
                raise
            self._was_open = True

    def _leave(self) -> None:
        stream, self._stream = self._stream, None
        if stream is not None:
            stream.leave(self)
            self._streams.join(self.batcher)
