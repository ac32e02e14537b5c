"""Watch of a state: its committed changes, across lost servers."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Self

from queryable_state.client._watches.change import Change
from queryable_state.client._watches.position import Position
from queryable_state.wire.errors import InvalidRequestError

if TYPE_CHECKING:
    from queryable_state.client._batching.key_batcher import KeyBatcher
    from queryable_state.client._watches.received_change import ReceivedChange
    from queryable_state.client._watches.watch_stream import WatchStream
    from queryable_state.client._watches.watch_streams import WatchStreams
    from queryable_state.client._watches.watched_keys import WatchedKeys

# A watch with more unread changes leaves a shared stream, which waits for nobody.
_MOST_UNREAD = 512
_MOST_UNREAD_BYTES = 1024 * 1024


class Watch:
    """Asynchronous iterator of the committed changes of a state.

        async with client.watch(job, "lastTemperature", keys=["sensor_1"]) as watch:
            async for change in watch:
                print(change.batch, change.key, change.old, change.new)

    It returns each change once, in the order of batches; within a batch by key group and key. It
    never ends by itself: leave the loop, or close it (`async with`, or `aclose`).

    If a server is lost or state moves, the watch continues behind the last change, at the new
    owners. If the servers do not have a change any more that is still to be returned, because the
    caller was slow or a server was lost, it returns one `Change` of kind GAP that names the
    batches, and continues behind them. It raises an error if the state or job is unknown, if access
    is denied, or after `reconnect_timeout_s` without a server.

    `batch` is a position for another watch, in any process: `client.watch(..., after_batch=batch)`.
    Only one task may wait for the next change at a time.
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
        self._returned = keys.after_batch
        self._gap_until = -1
        self._failure: BaseException | None = None
        self._woken = asyncio.Event()
        self._connecting = asyncio.Lock()
        self._is_open = self._is_closed = self._is_read = False

    @property
    def batch(self) -> int | None:
        """Every change up to this batch has been handled: the caller has come back for the next.

        None before the watch is open, unless it was given `after_batch`. Advances also while
        nothing changes, at least every 5 seconds.
        """
        if self._is_read and not self._unread:
            self._note_returned()
        return self._returned

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
        """Waits until the watch is open: it returns every change that is committed from now on.

        `async with` and the first read call it. Raises the errors of `client.watch`. Idempotent.
        """
        if not self._is_open:
            await self._connect()

    async def __anext__(self) -> Change:
        if self._is_read:
            raise InvalidRequestError(
                "another task waits for the next change of this watch: open one for each task"
            )
        self._is_read = True
        try:
            while not self._unread:
                self._note_returned()
                await self._wait()
            change = self._unread.popleft()
        finally:
            self._is_read = False
        if isinstance(change, Change):
            return change
        self._unread_bytes -= change.size_bytes
        return change.decoded()

    def __aiter__(self) -> Self:
        return self

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Ends the watch on client and servers. Idempotent."""
        self._is_closed = True
        self._unread.clear()
        self._leave()
        self._woken.set()

    def __repr__(self) -> str:
        state = "closed" if self._is_closed else f"at batch {self._returned}"
        return f"<{type(self).__name__} of {self.batcher.describe()}, {state}>"

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
        """Its stream has ended; the next read raises why, and one behind that tries again."""
        if stream is self._stream:
            self._start, self._stream = self.position, None
            self._failure = failure
            self._woken.set()

    async def _wait(self) -> None:
        """Waits for the next event of the watch; raises its end."""
        if self._is_closed:
            raise StopAsyncIteration
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure
        if self._stream is None:
            await self._connect()
            return
        self._woken.clear()
        self._stream.read_on()
        await self._woken.wait()

    async def _connect(self) -> None:
        """Opens a stream, unless another task has done so in the meantime."""
        async with self._connecting:
            if self._stream is not None:
                return
            patience_s = self.reconnect_timeout_s
            if not self._is_open:
                patience_s = self.batcher.options.timeout_s
            try:
                await self._streams.open(self, timeout_s=patience_s)
            except asyncio.CancelledError:
                self._leave()
                raise
            except Exception:
                # Raised here, and not once more by the next read.
                self._failure = None
                raise
            self._is_open = True
            if self._returned is None:
                self._note_returned()

    def _note_returned(self) -> None:
        position = self.position
        if position is not None:
            self._returned = position.batch

    def _leave(self) -> None:
        stream, self._stream = self._stream, None
        if stream is not None:
            stream.leave(self)
            self._streams.join(self.batcher)
