"""Follows the commits of a running Spark query."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING

from queryable_state.server.checkpoint.file_systems.storage import MissingFileError
from queryable_state.server.coordinator.status.findings.finding import ERROR, WARNING, finding
from queryable_state.server.native_state.server.batch_facts import PARTITIONS, BatchFacts
from queryable_state.wire.errors import (
    CheckpointError,
    CorruptDataError,
    QueryableStateError,
    RetryLaterError,
    VersionGoneError,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from queryable_state.server.native_state.files.checkpoint_logs import CommitEntry
    from queryable_state.server.native_state.files.query_checkpoint import QueryCheckpoint
    from queryable_state.server.native_state.server.query_states import QueryStates
    from queryable_state.server.native_state.server.served_query import ServedQuery
    from queryable_state.server.state_server.base.thread_pool import ThreadPool
    from queryable_state.v1 import status_pb2

_log = logging.getLogger(__name__)

# Between two looks at what changes rarely: the query's id, and commits that were removed.
_LOOK_S = 2.0
# Between two attempts at a batch that cannot be read.
_RETRY_S = 1.0
# Between two looks for files that were put back; at least so many times what the look takes.
_MEND_S = 2.0
_MEND_SHARE = 10.0
# What Spark or its storage makes good by itself does so sooner.
_PATIENCE_S = 10.0


class Follower:
    """Commits each batch in a `ServedQuery` once Spark has committed it.

    `commits/N` is the truth: files of batches without it are not read. A batch that cannot be
    read is tried again, and `findings` says why; queries meanwhile get the batch before. If it
    cannot be read for the second time because files are damaged or lost, their operators are left
    out, and the others go on; they are read again once the files are back.
    """

    def __init__(
        self,
        served: ServedQuery,
        checkpoint: QueryCheckpoint,
        threads: ThreadPool,
        read_states: Callable[[BatchFacts], QueryStates],
        operators: Callable[[int], object],
        *,
        poll_s: float,
        check_s: float,
    ) -> None:
        """`read_states` and `operators` block; what `operators` says of a batch is compared with
        `QueryStates.described_by` after `check_s`, and if the number of partitions changes."""
        self._served = served
        self._checkpoint = checkpoint
        self._threads = threads
        self._read_states = read_states
        self._operators = operators
        self._checked_s = 0.0
        self._poll_s = poll_s
        self._check_s = check_s
        self._looked_s = 0.0
        self._failing_since_s = 0.0
        # The batch that could not be read because of damaged files, -1: none.
        self._damaged_batch = -1
        self._next_mend_s = 0.0
        self.lag_ms = 0
        """From the commit of the newest batch until queries saw it."""
        self.finding: status_pb2.Finding | None = None
        """Why the newest batch is not served; None: it is."""

    async def run(self) -> None:
        """Follows until it is cancelled, or the checkpoint is another query's or gone."""
        while self._served.refusal is None:
            try:
                await self._next()
            except QueryableStateError as problem:
                self._failed(problem)
                waits = isinstance(problem, RetryLaterError)
                await asyncio.sleep(self._poll_s if waits else _RETRY_S)
            except Exception:  # noqa: BLE001 - following goes on, as of the batch before
                _log.exception("following %s failed; it is tried again", self._served.uri)
                await asyncio.sleep(_RETRY_S)

    async def _next(self) -> None:
        """Commits the next batch, or waits for it."""
        if self._served.has_damages and time.monotonic() >= self._next_mend_s:
            await self._mend()
        following = self._served.facts.batch + 1
        entry = await self._threads.run(self._checkpoint.find_commit, following)
        if entry is not None:
            await self._commit(entry)
            return
        if time.monotonic() - self._looked_s >= _LOOK_S:
            await self._look()
            self._looked_s = time.monotonic()
        await asyncio.sleep(self._poll_s)

    async def _commit(self, entry: CommitEntry) -> None:
        # Side by side: on an object store each of them is a round trip or several.
        try:
            facts, was_repeated, has_other_states = await asyncio.gather(
                BatchFacts.behind(entry, self._checkpoint, self._threads),
                self._was_repeated(),
                self._has_other_states(entry.batch, self._check_s),
            )
        except CorruptDataError:
            batches = await self._threads.run(self._checkpoint.committed_batches)
            if max(batches, default=-1) <= entry.batch:
                raise
            # What the logs say of a newer batch may be whole.
            await self._jump()
            return
        if facts.conf.get(PARTITIONS) != self._served.facts.conf.get(PARTITIONS):
            has_other_states = await self._has_other_states(entry.batch, 0.0)
        if has_other_states or was_repeated or self._served.taken_back is not None:
            await self._reload(facts)
        else:
            try:
                await self._served.advance(facts, leave_out=self._leaves_out)
            except VersionGoneError:
                await self._jump()
                return
        self._committed(facts)

    @property
    def _leaves_out(self) -> bool:
        """True if the next batch could not be read before, because of damaged files."""
        return self._damaged_batch == self._served.facts.batch + 1

    async def _mend(self) -> None:
        """Serves operators again whose files are back."""
        begun_s = time.monotonic()
        if await self._served.is_mended():
            await self._reload(self._served.facts)
        now_s = time.monotonic()
        self._next_mend_s = now_s + max(_MEND_S, _MEND_SHARE * (now_s - begun_s))

    async def _has_other_states(self, batch: int, check_s: float) -> bool:
        """True if the query has other states since this batch.

        Compares them only if `check_s` have passed since they were found to be the same.
        """
        now_s = time.monotonic()
        if now_s - self._checked_s < check_s:
            return False
        if await self._threads.run(self._operators, batch) != self._served.states.described_by:
            return True
        self._checked_s = now_s
        return False

    async def _look(self) -> None:
        """Checks what no commit shows: that the checkpoint exists, and is of this query."""
        served, checkpoint, threads = self._served, self._checkpoint, self._threads
        try:
            query_id = await threads.run(checkpoint.query_id)
        except MissingFileError as problem:
            served.refuse(
                CheckpointError(
                    f"{served.uri} was removed while it was served, so its state is unknown: start "
                    f"the server again once the query has a checkpoint ({problem})"
                )
            )
            self._report("CHECKPOINT_GONE", f"{served.uri} was removed", "Start the server again")
            return
        if query_id != served.query_id:
            served.refuse(
                CheckpointError(
                    f"{served.uri} is now of the query {query_id.hex()}, not of "
                    f"{served.query_id.hex()}, which was served: start the server again"
                )
            )
            self._report(
                "QUERY_CHANGED", f"{served.uri} is now of another query", "Start the server again"
            )
            return
        newest = max(await threads.run(checkpoint.committed_batches), default=-1)
        if newest > served.facts.batch + 1:
            # Its commit may have been removed; the batches behind it were not.
            if not await threads.run(checkpoint.find_commit, served.facts.batch + 1):
                await self._jump()
        elif newest < served.facts.batch and await self._was_committed_since(newest):
            facts = await threads.run(BatchFacts.of, checkpoint, newest)
            await self._reload(facts)
            self._committed(facts)
        elif newest < served.facts.batch:
            served.take_back(newest)
            self.finding = finding(
                "COMMIT_REMOVED",
                WARNING,
                time.time_ns() // 1_000_000,
                f"The commit of batch {served.facts.batch} was removed, the newest one is "
                f"{newest}: look-ups are refused until the query commits again",
                "Start the query again; its next batch is served once it is committed.",
            )
        elif await self._was_repeated():
            facts = await threads.run(BatchFacts.of, checkpoint, newest)
            await self._reload(facts)
            self._committed(facts)
        elif newest == served.facts.batch:
            served.restore()
            self._is_current()

    async def _was_repeated(self) -> bool:
        """True if the served batch was committed once more, with maybe another result."""
        facts = self._served.facts
        try:
            time_ms = await self._threads.run(self._checkpoint.commit_time_ms, facts.batch)
        except (VersionGoneError, RetryLaterError):
            return False
        return time_ms != facts.commit_time_ms

    async def _was_committed_since(self, batch: int) -> bool:
        """True if an older batch was committed after the one that is served."""
        if batch < 0:
            return False
        try:
            time_ms = await self._threads.run(self._checkpoint.commit_time_ms, batch)
        except (VersionGoneError, RetryLaterError):
            return False
        return time_ms > self._served.facts.commit_time_ms

    async def _jump(self) -> None:
        """Commits the newest batch, because the changes up to it are gone."""
        threads = self._threads
        newest = max(await threads.run(self._checkpoint.committed_batches))
        _log.warning(
            "%s: files of batch %d are gone; continuing at batch %d",
            self._served.uri,
            self._served.facts.batch + 1,
            newest,
        )
        facts = await threads.run(BatchFacts.of, self._checkpoint, newest)
        if await threads.run(self._operators, facts.batch) != self._served.states.described_by:
            await self._reload(facts)
        else:
            await self._served.jump(facts, leave_out=self._leaves_out)
        self._committed(facts)

    async def _reload(self, facts: BatchFacts) -> None:
        states = await self._threads.run(self._read_states, facts)
        await self._served.reload(states, facts, leave_out=self._leaves_out)
        _log.info("%s: loaded again as of batch %d", self._served.uri, facts.batch)

    def _committed(self, facts: BatchFacts) -> None:
        self.lag_ms = max(0, time.time_ns() // 1_000_000 - facts.commit_time_ms)
        self._is_current()

    def _is_current(self) -> None:
        self.finding = None
        self._failing_since_s = 0.0

    def _failed(self, problem: QueryableStateError) -> None:
        if isinstance(problem, CorruptDataError):
            self._damaged_batch = self._served.facts.batch + 1
        now_s = time.monotonic()
        if not self._failing_since_s:
            self._failing_since_s = now_s
        if isinstance(problem, RetryLaterError) and now_s - self._failing_since_s < _PATIENCE_S:
            return
        if self.finding is None:
            _log.error("%s: the next batch cannot be read: %s", self._served.uri, problem)
        self._report(
            "CHECKPOINT_DAMAGED",
            f"The batch behind {self._served.facts.batch} cannot be read, queries get batch "
            f"{self._served.facts.batch}: {problem}",
            "Put the named file back; the server continues by itself, also at a newer batch "
            "whose files are whole.",
        )

    def _report(self, code: str, message: str, next_step: str) -> None:
        since_ms = time.time_ns() // 1_000_000 if self.finding is None else self.finding.since_ms
        self.finding = finding(code, ERROR, since_ms, message, next_step)
