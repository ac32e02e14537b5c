"""The streams of the watches of one client."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import TYPE_CHECKING
from weakref import WeakSet

from queryable_state.client._process import forked
from queryable_state.client._watches.watch_stream import WatchReader, WatchStream
from queryable_state.wire.calls.forks import at_fork
from queryable_state.wire.errors import QueryableStateError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from queryable_state.client._queries.dispatcher import Dispatcher
    from queryable_state.client._queries.lookups import KeyBatcher

_log = logging.getLogger(__name__)

# So many watches of keys of one state have a stream each. More of them share one: a message costs a
# server about as much as a hundred changes in it.
_MOST_STREAMS = 8

# A server takes 4,096 keys. A stream of half of them is not opened again for further ones.
_MOST_KEYS = 4_096
_FULL_KEYS = _MOST_KEYS // 2

# After a refusal, as of a server that allows fewer keys, watches keep their streams for so long.
_REFUSED_S = 30.0


class WatchStreams:
    """Opens a stream for each watch, and joins the streams of many watches of one state.

    Each watch of keys begins with a stream of its own. Once there are many, one stream of all their
    keys is opened behind the position of the last of them, and takes their place.
    """

    def __init__(self, dispatcher: Dispatcher) -> None:
        self._dispatcher = dispatcher
        self._by_state: dict[KeyBatcher, set[WatchStream]] = {}
        """Open streams of single keys."""
        self._joining: set[KeyBatcher] = set()
        self._all: WeakSet[WatchStream] = WeakSet()
        at_fork(self)

    async def open(self, watch: WatchReader, *, timeout_s: float) -> None:
        """Opens a stream for a watch that has none; raises what refuses it."""
        self._dispatcher.pool.raise_if_forked()
        stream = self._start(watch.batcher, [watch], timeout_s)
        watch.begin(stream)
        await asyncio.shield(stream.opened)
        if stream.keys:
            self._add(stream)
            self.join(watch.batcher)

    def join(self, batcher: KeyBatcher) -> None:
        """Joins the streams of a state if that makes them fewer, in the background."""
        if batcher not in self._joining and self._to_join(batcher):
            self._joining.add(batcher)
            self._dispatcher.run(self._join(batcher))

    def leave_to_parent(self) -> None:
        """Fails every watch in a forked process."""
        for stream in tuple(self._all):
            # The loop may be closed, or that of another thread.
            with suppress(RuntimeError):
                for watch in stream.watches:
                    watch.failed(stream, forked())
                if not stream.opened.done():
                    stream.opened.set_exception(forked())

    async def _join(self, batcher: KeyBatcher) -> None:
        try:
            while parts := self._to_join(batcher):
                watches = [watch for part in parts for watch in part.watches]
                stream = self._start(batcher, watches, batcher.options.timeout_s)
                await asyncio.shield(stream.opened)
                self._add(stream)
        except QueryableStateError as refusal:
            _log.debug("watches of %s share no stream: %s", batcher.describe(), refusal)
            await asyncio.sleep(_REFUSED_S)
        finally:
            self._joining.discard(batcher)

    def _to_join(self, batcher: KeyBatcher) -> list[WatchStream]:
        """The streams that one stream shall replace; empty: none."""
        streams = [each for each in self._by_state.get(batcher, ()) if each.watches]
        sparse = [stream for stream in streams if stream.is_sparse]
        small = sorted(
            (stream for stream in streams if stream.keys <= _FULL_KEYS), key=lambda each: each.keys
        )
        if len(small) <= _MOST_STREAMS:
            return sparse[:1]
        found: list[WatchStream] = []
        keys = 0
        for stream in small:
            keys += stream.keys
            if keys > _MOST_KEYS:
                break
            found.append(stream)
        return found

    def _start(
        self, batcher: KeyBatcher, watches: Iterable[WatchReader], timeout_s: float
    ) -> WatchStream:
        stream = WatchStream(
            self._dispatcher, batcher, watches, open_timeout_s=timeout_s, ended=self._ended
        )
        self._all.add(stream)
        return stream

    def _add(self, stream: WatchStream) -> None:
        if stream.watches:
            self._by_state.setdefault(stream.batcher, set()).add(stream)

    def _ended(self, stream: WatchStream) -> None:
        streams = self._by_state.get(stream.batcher)
        if streams is not None:
            streams.discard(stream)
            if not streams:
                del self._by_state[stream.batcher]
