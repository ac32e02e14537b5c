"""Watch of a state: its committed changes, across lost servers."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Self

from queryable_state.client._routing.retries import CALLS
from queryable_state.client._watches.change import Change
from queryable_state.v1 import watch_pb2
from queryable_state.wire.calls.retrying import Attempts
from queryable_state.wire.errors import InvalidRequestError, QueryableStateError
from queryable_state.wire.keys.key_groups import KeyGroups
from queryable_state.wire.keys.store_keys import VOID_NAMESPACE, window_namespace
from queryable_state.wire.operator_state import refuse_watch

if TYPE_CHECKING:
    from queryable_state.client._batching.key_batcher import KeyBatcher
    from queryable_state.client._connection.stream_call import StreamCall
    from queryable_state.client._routing.dispatcher import Dispatcher
    from queryable_state.client._watches.watched_keys import WatchedKeys

# A server sends a message at least every 5 s; a proxy may look for new owners for 30 s.
_SILENCE_S = 40.0


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
        dispatcher: Dispatcher,
        batcher: KeyBatcher,
        keys: WatchedKeys,
        reconnect_timeout_s: float,
    ) -> None:
        self._dispatcher = dispatcher
        self._batcher = batcher
        self._keys = keys
        self._reconnect_timeout_s = reconnect_timeout_s
        self._call: StreamCall[watch_pb2.WatchKvStateResponse] | None = None
        self._changes: deque[Change] = deque()
        self._received = keys.after_batch
        """Every change up to this batch is received."""
        self._after_change = b""
        self._returned = keys.after_batch
        self._gap_until = -1
        self._is_open = self._is_closed = self._is_read = False

    @property
    def batch(self) -> int | None:
        """Every change up to this batch has been handled: the caller has come back for the next.

        None before the watch is open, unless it was given `after_batch`. Advances also while
        nothing changes, at least every 5 seconds.
        """
        return self._returned

    async def open(self) -> None:
        """Waits until the watch is open: it returns every change that is committed from now on.

        `async with` and the first read call it. Raises the errors of `client.watch`. Idempotent.
        """
        if not self._is_open:
            await self._receive()

    async def __anext__(self) -> Change:
        if self._is_read:
            raise InvalidRequestError(
                "another task waits for the next change of this watch: open one for each task"
            )
        self._is_read = True
        try:
            while not self._changes:
                self._returned = self._received
                if self._is_closed:
                    raise StopAsyncIteration
                await self._receive()
            return self._changes.popleft()
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
        self._changes.clear()
        self._drop_call()

    def __repr__(self) -> str:
        state = "closed" if self._is_closed else f"at batch {self._returned}"
        return f"<{type(self).__name__} of {self._batcher.describe()}, {state}>"

    async def _receive(self) -> None:
        """Receives one message; connects again while that may help."""
        loop = asyncio.get_running_loop()
        patience_s = self._reconnect_timeout_s if self._is_open else self._batcher.options.timeout_s
        attempts: Attempts | None = None
        while True:
            deadline_s = loop.time() + patience_s
            try:
                if self._call is None:
                    request = await self._request(deadline_s)
                    self._call = self._dispatcher.pool.watch(request)
                silence_s = _SILENCE_S if self._is_open else min(_SILENCE_S, patience_s)
                self._take(await self._call.next(silence_s))
                return
            except asyncio.CancelledError:
                # The message may be lost with the read: the next call sends it again.
                self._drop_call()
                raise
            except QueryableStateError as refusal:
                self._drop_call()
                attempts = attempts or Attempts(CALLS, deadline_s, loop.time)
                delay_s = attempts.delay_s(refusal)
                if delay_s is None:
                    raise attempts.final(refusal) from refusal.__cause__
            await asyncio.sleep(delay_s)

    async def _request(self, deadline_s: float) -> watch_pb2.WatchKvStateRequest:
        batcher, handle = self._batcher, self._batcher.handle
        locator = self._dispatcher.locator
        if self._is_open:
            # The types may have grown since the last call.
            locator.place(handle, await locator.locate(handle))
        await locator.located(handle, deadline_s)
        batcher.check()
        assert handle.located is not None
        assert handle.codecs is not None
        refuse_watch(handle.located.registration)
        assert isinstance(handle.codecs.key_groups, KeyGroups)
        request = watch_pb2.WatchKvStateRequest(
            job=handle.job,
            state_name=handle.state_name,
            after_batch=self._received,
            after_change=self._after_change,
        )
        try:
            self._keys.apply_to(request, handle.codecs.key_groups)
        except QueryableStateError as error:
            raise batcher.key_error(error) from None
        return request

    def _take(self, message: watch_pb2.WatchKvStateResponse) -> None:
        self._is_open = True
        if message.HasField("gap"):
            first = max(message.gap.first_batch, self._gap_until + 1)
            if first <= message.gap.last_batch:
                self._gap_until = message.gap.last_batch
                self._changes.append(Change.gap(first, message.gap.last_batch))
            return
        if message.changes:
            handle = self._batcher.handle
            assert handle.codecs is not None
            assert handle.located is not None
            codecs = self._batcher.answer_codecs(handle.codecs)
            kind = handle.located.registration.kind
            self._changes.extend(
                Change.from_proto(each, message, kind, codecs) for each in message.changes
            )
            self._received = message.batch - 1
            self._after_change = _position(message.changes[-1])
        if message.complete:
            self._received, self._after_change = message.batch, b""
        if self._returned is None:
            self._returned = message.batch if message.complete else message.batch - 1

    def _drop_call(self) -> None:
        call, self._call = self._call, None
        if call is not None:
            call.cancel()


def _position(change: watch_pb2.KvChange) -> bytes:
    """The store key of a change."""
    if not change.HasField("window"):
        return change.key + VOID_NAMESPACE + change.element
    namespace = window_namespace(change.window.start_ms, change.window.end_ms)
    return change.key + namespace + change.element
