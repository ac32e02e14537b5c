"""Dispatcher of batches: routing, retries and timeouts."""

from __future__ import annotations

import asyncio
import math
from collections import defaultdict
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from queryable_state.client._errors import closed_while_waiting
from queryable_state.client._process import forked
from queryable_state.client._queries.connection import BatchEvents
from queryable_state.client._queries.lookups import Batch
from queryable_state.client._queries.placement import KeyBatchers, Locator
from queryable_state.client._queries.pool import ConnectionPool
from queryable_state.client._queries.retries import CALLS, LOOKUPS, wants_placement
from queryable_state.wire.calls.forks import at_fork, keep
from queryable_state.wire.calls.retrying import retrying
from queryable_state.wire.errors import CorruptDataError, InternalError, QueryableStateError, Reason

if TYPE_CHECKING:
    from collections.abc import Coroutine, Sequence

    from queryable_state.client._queries.connection import ServerConnection
    from queryable_state.client._queries.handle import StateHandle
    from queryable_state.client._queries.lookups import KeyBatcher, QueryOptions
    from queryable_state.client._reading.pending_results import PendingResults
    from queryable_state.v1 import query_pb2
    from queryable_state.wire.located_state import LocatedState
    from queryable_state.wire.security.authorization import Credentials
    from queryable_state.wire.security.connector import Connector
    from queryable_state.wire.state_codecs import StateCodecs


class Dispatcher:
    """Batches of one client, from submission to their results. On one event loop.

    Every admitted batch ends in exactly one way: answered, failed, timed out, replaced by
    smaller batches or by a retry, or failed by `aclose`.
    """

    def __init__(
        self,
        addresses: Sequence[str],
        *,
        client: str,
        connector: Connector,
        unpickle: bool,
        direct: bool,
        credentials: Credentials | None = None,
    ) -> None:
        """`addresses`: HOST:PORT of each home server."""
        self._loop = asyncio.get_running_loop()
        events = BatchEvents(
            answered=self._answered,
            failed=self._failed,
            lost=self._lost,
            adopt=self._admit,
            halve=self._halve,
            reroute=self._reroute,
            run=self.run,
        )
        self._pool = ConnectionPool(
            events, addresses, client, connector, direct=direct, credentials=credentials
        )
        self._batchers = KeyBatchers(self._loop, self.submit, self._pool.send_alone)
        self._locator = Locator(self._pool, self._batchers, unpickle=unpickle)
        # Batches that wait until their state is located, which one task does for all of them.
        self._unlocated: defaultdict[StateHandle, list[Batch]] = defaultdict(list)
        self._locating: set[StateHandle] = set()
        # Every batch that has not ended, with the server that it was given to.
        self._batches: dict[Batch, ServerConnection | None] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._closed = False
        at_fork(self)

    @property
    def pool(self) -> ConnectionPool:
        """The server connections."""
        return self._pool

    @property
    def locator(self) -> Locator:
        """The locator of states."""
        return self._locator

    def run(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Runs work in the background; `aclose` cancels it."""
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def batcher(self, handle: StateHandle, options: QueryOptions) -> KeyBatcher:
        """Returns the batcher of a state and options."""
        return self._batchers.get(handle, options)

    def submit(
        self,
        batcher: KeyBatcher,
        keys: list[Any],
        results: PendingResults,
        deadline: float | None = None,
    ) -> None:
        """Sends keys: wire keys if the state is located, else keys as the caller gave them.

        `deadline` is on the loop's clock; None: now plus the batcher's timeout.
        """
        batcher.is_alone = len(keys) == 1 and not self._batches and batcher.is_plain
        if deadline is None:
            deadline = self._loop.time() + batcher.options.timeout_s
        elif self._closed:
            results.fail(range(len(keys)), closed_while_waiting())
            return
        codecs = batcher.handle.codecs
        if codecs is None:
            batch = Batch(batcher, None, keys, results, deadline)
            self._admit(batch, None)
            if not self._closed:
                self._await_location(batch)
        else:
            self._route(batcher, codecs, keys, results, deadline, 0, None)

    def _answered(self, batch: Batch, answer: query_pb2.Answer) -> None:
        """Delivers an answer, or one part of it; retries the keys it refuses."""
        try:
            failures = batch.complete(answer)
        except CorruptDataError as problem:
            self._end_with(batch, problem)
            return
        batch.batcher.flush_soon()
        for positions, error in failures:
            self._failed(batch, positions, error)
        if answer.last:
            self._end(batch)
            if batch.pending:
                server = batch.address or "the server"
                batch.fail(
                    batch.unanswered(),
                    InternalError(f"{server} left keys of {batch.batcher.describe()} unanswered"),
                )

    def _lost(self, batch: Batch, error: QueryableStateError) -> None:
        """Retries a batch whose connection has ended."""
        server = self._batches.get(batch)
        self._end(batch)
        self._failed(batch, batch.unanswered(), error, lost_by=server)

    def _failed(
        self,
        batch: Batch,
        positions: Sequence[int],
        error: QueryableStateError,
        lost_by: ServerConnection | None = None,
    ) -> None:
        """Retries keys that failed; fails them if a retry cannot help or would be too late.

        `lost_by`: the server whose connection has ended; None: it has answered.
        """
        state_unknown = error.reason == Reason.UNKNOWN_STATE and not batch.attempts
        delay = LOOKUPS.delay_s(error, batch.attempts)
        retryable = not self._closed and (LOOKUPS.retries(error) or state_unknown)
        too_late = self._loop.time() + delay >= batch.deadline
        if (trace := batch.batcher.trace) is not None:
            server = lost_by or self._batches.get(batch)
            trace.refused(
                "no server" if server is None else server.info.way,
                error,
                lost=lost_by is not None,
                retried=retryable and not too_late,
            )
        if not retryable:
            batch.fail(positions, error)
            return
        if too_late:
            batch.fail(positions, error.after(batch.attempts + 1))
            return
        retry = Batch(
            batch.batcher,
            batch.codecs,
            [batch.keys[position] for position in positions],
            batch.results.pick(positions),
            batch.deadline,
        )
        retry.attempts = batch.attempts + 1
        retry.failure = error
        retry.address = batch.address
        self._admit(retry, None)
        self.run(self._retry(retry, delay, wants_placement(error) or state_unknown))

    async def aclose(self) -> None:
        """Fails pending batches and closes every connection; idempotent."""
        self._closed = True
        self._batchers.flush_all()
        self._pool.adopt_lone()
        for batch in tuple(self._batches):
            self._end_with(batch, closed_while_waiting())
        tasks = tuple(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._locator.aclose()
        await self._pool.aclose()

    def leave_to_parent(self) -> None:
        """Fails pending and further batches in a forked process."""
        self._closed = True
        keep(*self._batches)
        # The loop may be closed, or that of another thread.
        with suppress(RuntimeError):
            self._batchers.refuse_all(forked)
            self._pool.adopt_lone()
            for batch in tuple(self._batches):
                self._end_with(batch, forked())

    def _admit(self, batch: Batch, server: ServerConnection | None) -> None:
        """Takes a batch, and the server that has it."""
        self._batches[batch] = server
        if server is not None:
            batch.address = server.address
        batch.timer = self._loop.call_at(batch.deadline, self._expire, batch)

    def _end(self, batch: Batch) -> None:
        batch.done = True
        self._batches.pop(batch, None)
        if batch.batcher.is_held:
            batch.batcher.flush_soon()
        if batch.timer is not None:
            batch.timer.cancel()

    def _end_with(self, batch: Batch, error: QueryableStateError) -> None:
        self._end(batch)
        batch.fail(batch.unanswered(), error)

    def _expire(self, batch: Batch) -> None:
        if batch.done:
            return
        server = self._batches[batch]
        self._end_with(batch, batch.timeout_error())
        if server is not None:
            server.forget(batch)

    def _route(
        self,
        batcher: KeyBatcher,
        codecs: StateCodecs,
        keys: list[bytes],
        results: PendingResults,
        deadline: float,
        attempts: int,
        failure: QueryableStateError | None,
    ) -> None:
        """Groups keys into batches by server and sends them."""
        located = batcher.handle.located
        assert located is not None
        parts: dict[ServerConnection, list[int]] = {}
        if len(located.owners) > 1:
            for owner, positions in located.split(keys).items():
                parts.setdefault(self._pool.for_owner(owner), []).extend(positions)
        else:
            parts[self._pool.for_owner(located.owners[0])] = []
        whole = len(parts) == 1
        for server, positions in parts.items():
            count = len(keys) if whole else len(positions)
            step = server.batch_size(count) if results.each_alone else server.batch_keys
            for start in range(0, count, step):
                if whole and count <= step:
                    batch = Batch(batcher, codecs, keys, results, deadline)
                else:
                    end = min(count, start + step)
                    chunk = range(start, end) if whole else positions[start:end]
                    batch = Batch(
                        batcher,
                        codecs,
                        list(map(keys.__getitem__, chunk)),
                        results.pick(chunk),
                        deadline,
                    )
                batch.attempts = attempts
                batch.failure = failure
                if server.send(batch):
                    self._admit(batch, server)

    def _halve(self, batch: Batch) -> None:
        """Replaces a batch whose request is too long by two."""
        if batch.done:
            return
        self._end(batch)
        codecs, count = batch.codecs, len(batch.keys)
        assert codecs is not None
        for half in (range(count // 2), range(count // 2, count)):
            keys = [batch.keys[position] for position in half]
            # Counted as an attempt: a batch with attempts is not joined to others.
            self._route(
                batch.batcher, codecs, keys, batch.results.pick(half), batch.deadline,
                batch.attempts + 1, batch.failure,
            )  # fmt: skip

    def _reroute(self, batch: Batch) -> None:
        """Replaces a batch that was not sent by batches for the current placement."""
        self._end(batch)
        batcher = batch.batcher
        if batcher.refusal is not None:
            batch.fail(batch.unanswered(), batcher.refusal)
            return
        codecs = batcher.handle.codecs
        assert codecs is not None
        keys, results = batch.wire_keys(codecs)
        if keys:
            self._route(
                batcher, codecs, keys, results, batch.deadline, batch.attempts, batch.failure
            )

    async def _retry(self, batch: Batch, delay: float, refresh: bool) -> None:
        handle = batch.batcher.handle
        known = handle.located
        if refresh and known is not None:
            try:
                await self._locator.relocate(handle, known)
            except QueryableStateError as error:
                if not CALLS.retries(error):
                    if not batch.done:
                        self._end_with(batch, error)
                    return
                batch.failure = error
        await asyncio.sleep(delay)
        if not batch.done:
            self._reroute(batch)

    def _await_location(self, batch: Batch) -> None:
        """Keeps a batch and locates its state in the background."""
        handle = batch.batcher.handle
        self._unlocated[handle].append(batch)
        if handle not in self._locating:
            self._locating.add(handle)
            self.run(self._locate(handle))

    async def _locate(self, handle: StateHandle) -> None:
        async def attempt() -> LocatedState | None:
            # Every batch ends at its own deadline; the attempts have no common one.
            is_needed = any(not batch.done for batch in self._unlocated[handle])
            return await self._locator.locate(handle) if is_needed else None

        def note(error: QueryableStateError) -> None:
            for batch in self._unlocated[handle]:
                batch.failure = error

        try:
            located = await retrying(attempt, CALLS, deadline_s=math.inf, before_retry=note)
            if located is not None:
                self._locator.place(handle, located)
                for batch in self._take_unlocated(handle):
                    if not batch.done:
                        self._reroute(batch)
        except QueryableStateError as error:
            for batch in self._take_unlocated(handle):
                if not batch.done:
                    self._end_with(batch, error)
        finally:
            self._locating.discard(handle)
            waiting = [batch for batch in self._take_unlocated(handle) if not batch.done]
            if waiting:
                self._unlocated[handle] = waiting

    def _take_unlocated(self, handle: StateHandle) -> list[Batch]:
        return self._unlocated.pop(handle, [])
