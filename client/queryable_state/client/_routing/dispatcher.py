"""Dispatcher of batches: routing, retries and timeouts."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from queryable_state.client._batching.batch import Batch
from queryable_state.client._batching.wire_keys import wire_keys
from queryable_state.client._errors import closed_while_waiting
from queryable_state.client._process import forked
from queryable_state.client._routing.connection_pool import ConnectionPool
from queryable_state.client._routing.key_batchers import KeyBatchers
from queryable_state.client._routing.locator import Locator
from queryable_state.client._routing.retries import CALLS, LOOKUPS, wants_placement
from queryable_state.client._routing.unlocated_batches import UnlocatedBatches
from queryable_state.wire.calls.forks import at_fork, keep
from queryable_state.wire.errors import CorruptDataError, InternalError, QueryableStateError, Reason

if TYPE_CHECKING:
    from collections.abc import Coroutine, Sequence

    from queryable_state.client._batching.key_batcher import KeyBatcher
    from queryable_state.client._batching.query_options import QueryOptions
    from queryable_state.client._batching.state_handle import StateHandle
    from queryable_state.client._connection.server_connection import ServerConnection
    from queryable_state.client._reading.pending_results import PendingResults
    from queryable_state.v1 import query_pb2
    from queryable_state.wire.security.authorization import Credentials
    from queryable_state.wire.security.connector import Connector
    from queryable_state.wire.state_codecs import StateCodecs


class Dispatcher:
    """Batches of one client, from submission to their results. On one event loop.

    Every admitted batch ends in exactly one way: answered, failed, timed out, replaced by
    smaller batches or by a retry, or failed by `aclose`. Implements `BatchEvents`.
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
        self._pool = ConnectionPool(
            self, addresses, client, connector, direct=direct, credentials=credentials
        )
        self._batchers = KeyBatchers(self._loop, self.submit)
        self._locator = Locator(self._pool, self._batchers, unpickle=unpickle)
        self._unlocated = UnlocatedBatches(self._locator, self, self._end_with)
        self._batches: set[Batch] = set()
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
        if deadline is None:
            deadline = self._loop.time() + batcher.options.timeout_s
        elif self._closed:
            results.fail(range(len(keys)), closed_while_waiting())
            return
        codecs = batcher.handle.codecs
        if codecs is None:
            batch = Batch(batcher, None, keys, results, deadline)
            self._admit(batch)
            if not self._closed:
                self._unlocated.add(batch)
        else:
            self._route(batcher, codecs, keys, results, deadline, 0, None)

    def answered(self, batch: Batch, answer: query_pb2.Answer) -> None:
        """Delivers an answer, or one part of it; retries the keys it refuses."""
        try:
            failures = batch.complete(answer)
        except CorruptDataError as problem:
            self._end_with(batch, problem)
            return
        batch.batcher.flush_soon()
        for positions, error in failures:
            self.failed(batch, positions, error)
        if answer.last:
            self._end(batch)
            if batch.pending:
                server = batch.server.address if batch.server else "the server"
                batch.fail(
                    batch.unanswered(),
                    InternalError(f"{server} left keys of {batch.batcher.describe()} unanswered"),
                )

    def failed(
        self,
        batch: Batch,
        positions: Sequence[int],
        error: QueryableStateError,
        *,
        connection_lost: bool = False,
    ) -> None:
        """Retries keys that failed; fails them if a retry cannot help or would be too late."""
        if connection_lost:
            self._end(batch)
        state_unknown = error.reason == Reason.UNKNOWN_STATE and not batch.attempts
        delay = LOOKUPS.delay_s(error, batch.attempts)
        retryable = not self._closed and (LOOKUPS.retries(error) or state_unknown)
        too_late = self._loop.time() + delay >= batch.deadline
        if (trace := batch.batcher.trace) is not None:
            trace.refused(
                batch.way(), error, lost=connection_lost, retried=retryable and not too_late
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
        retry.server = batch.server
        self._admit(retry)
        self.run(self._retry(retry, delay, wants_placement(error) or state_unknown))

    async def aclose(self) -> None:
        """Fails pending batches and closes every connection; idempotent."""
        self._closed = True
        self._batchers.flush_all()
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
            for batch in tuple(self._batches):
                self._end_with(batch, forked())

    def _admit(self, batch: Batch) -> None:
        self._batches.add(batch)
        batch.timer = self._loop.call_at(batch.deadline, self._expire, batch)

    def _end(self, batch: Batch) -> None:
        batch.done = True
        self._batches.discard(batch)
        if batch.timer is not None:
            batch.timer.cancel()

    def _end_with(self, batch: Batch, error: QueryableStateError) -> None:
        self._end(batch)
        batch.fail(batch.unanswered(), error)

    def _expire(self, batch: Batch) -> None:
        if batch.done:
            return
        self._end_with(batch, batch.timeout_error())
        if batch.server is not None:
            batch.server.forget(batch)

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
                    self._admit(batch)

    def halve(self, batch: Batch) -> None:
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

    def reroute(self, batch: Batch) -> None:
        """Replaces a batch that was not sent by batches for the current placement."""
        self._end(batch)
        batcher = batch.batcher
        if batcher.refusal is not None:
            batch.fail(batch.unanswered(), batcher.refusal)
            return
        codecs = batcher.handle.codecs
        assert codecs is not None
        keys, results = wire_keys(batch, codecs)
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
            self.reroute(batch)
