"""Stream of changes from the servers, for one watch or for several that share it."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Protocol
from weakref import WeakKeyDictionary, WeakSet

from queryable_state.client._errors import ClientClosedError
from queryable_state.client._queries.retries import CALLS
from queryable_state.client._scans.scan import ALL
from queryable_state.client._watches.position import Position
from queryable_state.client._watches.received_change import ReceivedChange
from queryable_state.v1 import watch_pb2
from queryable_state.wire.calls.retrying import Attempts
from queryable_state.wire.errors import QueryableStateError, UnknownJobError, UnknownStateError
from queryable_state.wire.keys.key_groups import KeyGroups
from queryable_state.wire.operator_state import refuse_watch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from queryable_state.client._queries.dispatcher import Dispatcher
    from queryable_state.client._queries.lookups import KeyBatcher
    from queryable_state.client._queries.pool import StreamCall
    from queryable_state.client._watches.watched_keys import WatchedKeys
    from queryable_state.wire.state_codecs import StateCodecs

# A server sends a message at least every 5 s; a proxy may look for new owners for 30 s.
_SILENCE_S = 40.0

# A stream that waits for a watch that is forgotten ends within this time.
_FORGOTTEN_S = 5.0


class WatchReader(Protocol):
    """A watch, as its streams see it."""

    @property
    def batcher(self) -> KeyBatcher:
        """Of the watched state."""
        ...

    @property
    def keys(self) -> WatchedKeys:
        """What it watches."""
        ...

    @property
    def reconnect_timeout_s(self) -> float:
        """For how long a lost call is opened again."""
        ...

    @property
    def position(self) -> Position | None:
        """Every change up to here has arrived; None: it is not open yet."""
        ...

    @property
    def has_unread(self) -> bool:
        """Whether changes have arrived that the caller has not read."""
        ...

    def begin(self, stream: WatchStream) -> None:
        """Reads a stream from now on, behind what has arrived."""
        ...

    def joined(self, stream: WatchStream) -> None:
        """A stream that has this watch is open."""
        ...

    def lacks(self, received: ReceivedChange) -> bool:
        """Whether a change of its stream is not one that had arrived by another stream before."""
        ...

    def take(self, stream: WatchStream, received: ReceivedChange) -> None:
        """A change has arrived."""
        ...

    def take_gap(self, first_batch: int, last_batch: int) -> None:
        """The servers do not have the changes of these batches any more."""
        ...

    def failed(self, stream: WatchStream, failure: BaseException) -> None:
        """Its stream has ended."""
        ...


class WatchStream:
    """Calls `WatchKvState`, again behind the last change when a call is lost, until it is closed.

    It hands each change to the watches of its key. The watch of a stream that is not shared is
    waited for: its servers send more once it has read what is there. Event loop only.
    """

    def __init__(
        self,
        dispatcher: Dispatcher,
        batcher: KeyBatcher,
        watches: Iterable[WatchReader],
        *,
        open_timeout_s: float,
        ended: Callable[[WatchStream], None],
    ) -> None:
        """Begins at the position of the watch that is furthest behind.

        `ended` is called once the stream has no watches any more, or has failed.
        """
        self.batcher = batcher
        self.opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Done once the servers send every change from the position on, or refuse to."""
        # The watches raise the error, too.
        self.opened.add_done_callback(lambda opened: opened.cancelled() or opened.exception())
        self._dispatcher = dispatcher
        self._ended = ended
        self._keys_of: WeakKeyDictionary[WatchReader, tuple[bytes, ...]] = WeakKeyDictionary(
            dict.fromkeys(watches, ())
        )
        """The watches, with their wire keys."""
        self._asked_watches = len(self._keys_of)
        """Number of watches in the request of the last call."""
        self._readers: dict[bytes, WeakSet[WatchReader]] = {}
        starts = [watch.position for watch in self._keys_of]
        known = [start for start in starts if start is not None]
        self.position = min(known) if len(known) == len(starts) else None
        """None: not open yet, and it begins with the next batch that is committed."""
        self._job_id = b""
        """Of the job that the position is of; empty: not open yet."""
        self._newest_start: Position | None = None
        """Of the watches that read it; None: not open yet."""
        self._open_timeout_s = open_timeout_s
        self._call: StreamCall[watch_pb2.WatchKvStateResponse] | None = None
        self._is_read = asyncio.Event()
        self._task = dispatcher.run(self._run())
        self._task.add_done_callback(self._end)

    @property
    def watches(self) -> tuple[WatchReader, ...]:
        """The watches that read this stream."""
        return tuple(self._keys_of)

    @property
    def is_shared(self) -> bool:
        """Whether several watches read it."""
        return len(self._keys_of) > 1

    @property
    def is_sparse(self) -> bool:
        """Whether most of the watches that it was opened for have left it."""
        return 2 * len(self._keys_of) < self._asked_watches

    @property
    def keys(self) -> int:
        """Number of keys that its servers watch; 0: not those of single keys."""
        return len(self._readers)

    def read_on(self) -> None:
        """Called once a watch has read all its changes."""
        self._is_read.set()

    def leave(self, watch: WatchReader) -> None:
        """A watch does not read it any more; the last one closes it. Idempotent."""
        for key in self._keys_of.pop(watch, ()):
            self._readers[key].discard(watch)
        if not self._keys_of:
            self._task.cancel()

    async def _run(self) -> None:
        while self._keys_of:
            self._deliver(await self._next())
            while not self.is_shared and any(watch.has_unread for watch in self.watches):
                self._is_read.clear()
                # A watch that nobody refers to any more is not among them, and tells nobody.
                with suppress(TimeoutError):
                    async with asyncio.timeout(_FORGOTTEN_S):
                        await self._is_read.wait()

    def _end(self, task: asyncio.Task[None]) -> None:
        self._drop_call()
        self._ended(self)
        failure = None if task.cancelled() else task.exception()
        if failure is None:
            failure = ClientClosedError("the client was closed while a watch waited: open another")
        if not self.opened.done():
            self.opened.set_exception(failure)
        for watch in self.watches:
            watch.failed(self, failure)

    async def _next(self) -> watch_pb2.WatchKvStateResponse:
        """The next message; connects again while that may help."""
        loop = asyncio.get_running_loop()
        is_open = self.opened.done()
        patience_s = self._open_timeout_s
        if is_open:
            patience_s = max((each.reconnect_timeout_s for each in self.watches), default=0.0)
        silence_s = _SILENCE_S if is_open else min(_SILENCE_S, patience_s)
        attempts: Attempts | None = None
        known = self.batcher.handle.located
        while True:
            deadline_s = loop.time() + patience_s
            try:
                if self._call is None:
                    request = await self._request(deadline_s)
                    self._call = self._dispatcher.pool.watch(request)
                return await self._call.next(silence_s)
            except QueryableStateError as refusal:
                self._drop_call()
                if known is not None and isinstance(refusal, UnknownJobError | UnknownStateError):
                    # A job of the same name may have replaced the one that was located.
                    locator, version = self._dispatcher.locator, known.placement_version
                    await locator.located_anew(self.batcher.handle, deadline_s, version)
                    known = None
                    continue
                attempts = attempts or Attempts(CALLS, deadline_s, loop.time)
                delay_s = attempts.delay_s(refusal)
                if delay_s is None:
                    raise attempts.final(refusal) from refusal.__cause__
            await asyncio.sleep(delay_s)

    async def _request(self, deadline_s: float) -> watch_pb2.WatchKvStateRequest:
        batcher, handle = self.batcher, self.batcher.handle
        locator = self._dispatcher.locator
        if self.opened.done():
            # The types may have grown since the last call.
            locator.place(handle, await locator.locate(handle))
        await locator.located(handle, deadline_s)
        batcher.check()
        assert handle.located is not None
        assert handle.codecs is not None
        registration = handle.located.registration
        if self.opened.done() and registration.job_id != self._job_id:
            raise UnknownJobError(
                f"job {registration.job_name!r} ({self._job_id.hex()}) was replaced by "
                f"{registration.job_id.hex()}, whose batches count anew: open another watch"
            )
        self._job_id = registration.job_id
        refuse_watch(registration)
        key_groups = handle.codecs.key_groups
        assert isinstance(key_groups, KeyGroups)
        request = watch_pb2.WatchKvStateRequest(state_name=handle.state_name)
        # Another job of the name may have other types.
        request.job = registration.job_id.hex()
        if self.position is not None:
            request.after_batch, request.after_change = self.position
        self._readers = {}
        try:
            for watch in self.watches:
                self._keys_of[watch] = keys = watch.keys.wire_keys(key_groups)
                for key in keys:
                    self._readers.setdefault(key, WeakSet()).add(watch)
                if watch.keys.prefix is not ALL:
                    request.prefix_key = watch.keys.wire_prefix(key_groups)
        except QueryableStateError as error:
            raise batcher.key_error(error) from None
        self._asked_watches = len(self._keys_of)
        request.keys.extend(self._readers)
        return request

    def _deliver(self, message: watch_pb2.WatchKvStateResponse) -> None:
        if message.HasField("gap"):
            for watch in self.watches:
                watch.take_gap(message.gap.first_batch, message.gap.last_batch)
        elif message.changes:
            self._deliver_changes(message)
            self.position = Position.of(message.changes[-1], message.batch)
        if message.complete and (self.position is None or message.batch != self.position.batch):
            self.position = Position(message.batch)
        if not self.opened.done():
            if self.position is None:
                self.position = Position(message.batch - 1)
            for watch in self.watches:
                watch.joined(self)
            # They have read on while this stream was being opened.
            starts = [watch.position for watch in self.watches]
            self._newest_start = max((each for each in starts if each is not None), default=None)
            self.opened.set_result(None)

    def _deliver_changes(self, message: watch_pb2.WatchKvStateResponse) -> None:
        handle = self.batcher.handle
        assert handle.codecs is not None
        assert handle.located is not None
        codecs: StateCodecs = self.batcher.answer_codecs(handle.codecs)
        kind = handle.located.registration.kind
        commit_time_ms = message.commit_time_ms
        # A watch that has joined others may already have what these still lacked.
        assert self.position is not None
        is_new = self._newest_start is None or self.position >= self._newest_start
        for change in message.changes:
            received = ReceivedChange(change, message.batch, commit_time_ms, kind, codecs)
            readers = self._readers.get(change.key, ()) if self._readers else self.watches
            for watch in tuple(readers):
                if is_new or watch.lacks(received):
                    watch.take(self, received)

    def _drop_call(self) -> None:
        call, self._call = self._call, None
        if call is not None:
            call.cancel()
