"""Watch of a state: its committed changes, across lost servers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from queryable_state.client._watches.inbox import WatchInbox
from queryable_state.wire.errors import InvalidRequestError

if TYPE_CHECKING:
    from queryable_state.client._queries.lookups import KeyBatcher
    from queryable_state.client._watches.change import Change
    from queryable_state.client._watches.watch_streams import WatchStreams
    from queryable_state.client._watches.watched_keys import WatchedKeys


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
        self._inbox = WatchInbox(streams, batcher, keys, reconnect_timeout_s)
        self._returned = keys.after_batch
        self._is_closed = self._is_read = False

    @property
    def batch(self) -> int | None:
        """Every change up to this batch has been handled: the caller has come back for the next.

        None before the watch is open, unless it was given `after_batch`. Advances also while
        nothing changes, at least every 5 seconds.
        """
        if self._is_read and not self._inbox.has_unread:
            self._note_returned()
        return self._returned

    async def open(self) -> None:
        """Waits until the watch is open: it returns every change that is committed from now on.

        `async with` and the first read call it. Raises the errors of `client.watch`. Idempotent.
        """
        await self._inbox.open()
        if self._returned is None:
            self._note_returned()

    async def __anext__(self) -> Change:
        if self._is_read:
            raise InvalidRequestError(
                "another task waits for the next change of this watch: open one for each task"
            )
        self._is_read = True
        try:
            while not self._inbox.has_unread:
                self._note_returned()
                if self._is_closed:
                    raise StopAsyncIteration
                await self._inbox.wait()
            return self._inbox.pop()
        finally:
            self._is_read = False

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
        self._inbox.close()

    def __repr__(self) -> str:
        state = "closed" if self._is_closed else f"at batch {self._returned}"
        return f"<{type(self).__name__} of {self._inbox.batcher.describe()}, {state}>"

    def _note_returned(self) -> None:
        position = self._inbox.position
        if position is not None:
            self._returned = position.batch
