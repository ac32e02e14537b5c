"""Brings queries to whoever can answer them, and again to others until their time runs out."""

from __future__ import annotations

import asyncio
import math
from typing import TYPE_CHECKING, Any

from queryable_state.client._connection.batch import Batch
from queryable_state.client._errors import closed_while_waiting
from queryable_state.client._routing.connection_pool import ConnectionPool
from queryable_state.client._routing.locator import Locator
from queryable_state.client._routing.retries import CALLS, LOOKUPS, wants_placement
from queryable_state.client._routing.wire_keys import wire_keys
from queryable_state.wire.calls.retrying import retrying
from queryable_state.wire.errors import (
    CorruptDataError,
    InternalError,
    QueryableStateError,
    Reason,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence

    from queryable_state.client._connection.server_connection import ServerConnection
    from queryable_state.client._reading.pending_results import PendingResults
    from queryable_state.client._routing.key_batcher import KeyBatcher
    from queryable_state.client._routing.state_handle import StateHandle
    from queryable_state.v1 import query_pb2
    from queryable_state.wire.located_state import LocatedState
    from queryable_state.wire.state_codecs import StateCodecs


class Dispatcher:
    """The queries of one client: located, sent, retried, timed out. On one event loop.

    A batch admitted here ends in exactly one way: answered, failed, timed out,
    split into batches that take its place, or failed by `aclose`.
    """

    def __init__(self, address: str, *, client: str, unpickle: bool, direct: bool) -> None:
        self._loop = asyncio.get_running_loop()
        self._pool = ConnectionPool(self, address, client, direct=direct)
        self._locator = Locator(self._pool, unpickle=unpickle)
        self._batches: set[Batch] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._closed = False

    @property
    def pool(self) -> ConnectionPool:
        """The servers talked to."""
        return self._pool

    @property
    def locator(self) -> Locator:
        """Where states are."""
        return self._locator

    def run(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Runs work in the background; `aclose` ends it."""
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def call_soon(self, call: Callable[[], None]) -> None:
        """Calls at the end of this turn of the client's loop."""
        self._loop.call_soon(call)

    def new_future(self) -> asyncio.Future[Any]:
        """A future of the client's loop."""
        return self._loop.create_future()

    def submit(
        self,
        batcher: KeyBatcher,
        keys: list[Any],
        results: PendingResults,
        deadline: float | None = None,
    ) -> None:
        """Sends keys: wire keys where the lane's state is located, else as the caller gave them.

        `deadline` is on the loop's clock; None: what the lane's options allow, from now.
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
            self._park(batch)
        else:
            self._route(batcher, codecs, keys, results, deadline, 0, None)

    def answered(self, batch: Batch, answer: query_pb2.Answer) -> None:
        """Takes an answer, or a part of one."""
        try:
            failures = batch.settle(answer)
        except CorruptDataError as problem:
            self._discharge(batch)
            batch.fail(batch.left(), problem)
            return
        batch.batcher.flush_soon()
        for positions, error in failures:
            self.failed(batch, positions, error)
        if answer.last:
            self._discharge(batch)
            if batch.pending:
                server = batch.server.address if batch.server else "the server"
                batch.fail(
                    batch.left(),
                    InternalError(f"{server} left keys of {batch.batcher.describe()} unanswered"),
                )

    def failed(
        self,
        batch: Batch,
        positions: Sequence[int],
        error: QueryableStateError,
        *,
        peer_is_gone: bool = False,
    ) -> None:
        """Asks again for keys that were refused, as long as that makes sense; else fails them."""
        if peer_is_gone:
            self._discharge(batch)
        state_is_gone = error.reason == Reason.UNKNOWN_STATE and not batch.attempts
        delay = LOOKUPS.delay_s(error, batch.attempts)
        retryable = not self._closed and (LOOKUPS.retries(error) or state_is_gone)
        too_late = self._loop.time() + delay >= batch.deadline
        if (trace := batch.batcher.trace) is not None:
            trace.refused(batch, error, lost=peer_is_gone, retried=retryable and not too_late)
        if not retryable:
            batch.fail(positions, error)
            return
        if too_late:
            batch.fail(positions, error.after(batch.attempts + 1))
            return
        again = Batch(
            batch.batcher,
            batch.codecs,
            [batch.keys[position] for position in positions],
            batch.results.pick(positions),
            batch.deadline,
        )
        again.attempts = batch.attempts + 1
        again.failure = error
        again.server = batch.server
        self._admit(again)
        self.run(self._ask_again(again, delay, wants_placement(error) or state_is_gone))

    async def aclose(self) -> None:
        """Fails what is pending and closes every connection; idempotent."""
        self._closed = True
        for handle in self._locator.handles():
            for batcher in handle.batchers():
                batcher.flush()
        for batch in tuple(self._batches):
            self._discharge(batch)
            batch.fail(batch.left(), closed_while_waiting())
        tasks = tuple(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._locator.aclose()
        await self._pool.aclose()

    def _admit(self, batch: Batch) -> None:
        self._batches.add(batch)
        batch.timer = self._loop.call_at(batch.deadline, self._expire, batch)

    def _discharge(self, batch: Batch) -> None:
        batch.done = True
        self._batches.discard(batch)
        if batch.timer is not None:
            batch.timer.cancel()

    def _expire(self, batch: Batch) -> None:
        if batch.done:
            return
        self._discharge(batch)
        batch.fail(batch.left(), batch.timeout_error())
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
        """Puts keys into batches, each for one server."""
        located = batcher.handle.located
        assert located is not None
        parts: dict[ServerConnection, list[int]] = {}
        if len(located.owners) > 1:
            for owner, positions in located.split(keys).items():
                parts.setdefault(self._pool.of(owner), []).extend(positions)
        else:
            parts[self._pool.of(located.owners[0])] = []
        whole = len(parts) == 1
        for server, positions in parts.items():
            count = len(keys) if whole else len(positions)
            step = server.portion(count) if results.each_alone else server.batch_keys
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
                if server.ask(batch):
                    self._admit(batch)

    def halve(self, batch: Batch) -> None:
        """Takes a batch that is longer than a request may be as two."""
        if batch.done:
            return
        self._discharge(batch)
        codecs, count = batch.codecs, len(batch.keys)
        assert codecs is not None
        for half in (range(count // 2), range(count // 2, count)):
            keys = [batch.keys[position] for position in half]
            # Counted as an attempt, so that it is not joined to others again.
            self._route(
                batch.batcher, codecs, keys, batch.results.pick(half), batch.deadline,
                batch.attempts + 1, batch.failure,
            )  # fmt: skip

    def reroute(self, batch: Batch) -> None:
        """Takes a batch that was not asked yet anew, under the placement known now."""
        self._discharge(batch)
        batcher = batch.batcher
        if batcher.refusal is not None:
            batch.fail(batch.left(), batcher.refusal)
            return
        codecs = batcher.handle.codecs
        assert codecs is not None
        keys, results = wire_keys(batch, codecs)
        if keys:
            self._route(
                batcher, codecs, keys, results, batch.deadline, batch.attempts, batch.failure
            )

    def _park(self, batch: Batch) -> None:
        handle = batch.batcher.handle
        handle.parked.append(batch)
        if handle.locating is None and not self._closed:
            handle.locating = self.run(self._locate_parked(handle))

    async def _locate_parked(self, handle: StateHandle) -> None:
        async def attempt() -> LocatedState | None:
            # Each batch ends at a deadline of its own: there is none for all of them.
            is_wanted = any(not batch.done for batch in handle.parked)
            return await self._locator.locate(handle) if is_wanted else None

        def note(error: QueryableStateError) -> None:
            for batch in handle.parked:
                batch.failure = error

        try:
            located = await retrying(attempt, CALLS, deadline_s=math.inf, before_retry=note)
            if located is not None:
                self._locator.place(handle, located)
                parked, handle.parked = handle.parked, []
                for batch in parked:
                    if not batch.done:
                        self.reroute(batch)
        except QueryableStateError as error:
            self._fail_parked(handle, error)
        finally:
            handle.locating = None
            handle.parked = [batch for batch in handle.parked if not batch.done]

    def _fail_parked(self, handle: StateHandle, error: QueryableStateError) -> None:
        parked, handle.parked = handle.parked, []
        for batch in parked:
            if not batch.done:
                self._discharge(batch)
                batch.fail(batch.left(), error)

    async def _ask_again(self, batch: Batch, delay: float, refresh: bool) -> None:
        handle = batch.batcher.handle
        known = handle.located
        if refresh and known is not None:
            try:
                await self._locator.relocate(handle, known)
            except QueryableStateError as error:
                if not CALLS.retries(error):
                    if not batch.done:
                        self._discharge(batch)
                        batch.fail(batch.left(), error)
                    return
                batch.failure = error
        await asyncio.sleep(delay)
        if not batch.done:
            self.reroute(batch)
