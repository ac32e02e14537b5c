"""Start of a server at the newest batch of a query, which may have none yet."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING

from queryable_state.server.checkpoint.file_systems.storage import MissingFileError
from queryable_state.server.native_state.server.batch_facts import STRICT_DISTRIBUTION, BatchFacts
from queryable_state.server.process.rate_limited_log import RateLimitedLog
from queryable_state.wire.errors import CheckpointError, VersionGoneError

if TYPE_CHECKING:
    from queryable_state.server.native_state.files.query_checkpoint import QueryCheckpoint
    from queryable_state.server.native_state.server.served_query import ServedQuery
    from queryable_state.server.native_state.server.states_reader import StatesReader
    from queryable_state.server.state_server.base.thread_pool import ThreadPool

_log = logging.getLogger(__name__)

_PROGRESS_S = 5.0
# Between two looks for the query, and for its first batch.
_QUERY_LOOK_S = 1.0
_BATCH_LOOK_S = 0.2
_WAITING_LOG_S = 60.0
# The job may remove the newest batch that was listed before it is read.
_STARTS = 5


class FirstLoad:
    """Finds the batch to serve first. A server that follows a query waits for it."""

    def __init__(self, checkpoint: QueryCheckpoint, threads: ThreadPool, *, follows: bool) -> None:
        self._checkpoint = checkpoint
        self._threads = threads
        self._follows = follows
        self._waiting = RateLimitedLog(_log, every_s=_WAITING_LOG_S)

    async def query_id(self) -> bytes:
        """The id of the query; raises as `QueryCheckpoint.query_id`.

        The folder of a query that has not started is empty or missing: a follower waits for it.
        """
        while True:
            try:
                return await self._threads.run(self._checkpoint.query_id)
            except MissingFileError as problem:
                if not self._follows or await self._threads.run(self._checkpoint.has_files):
                    raise
                self._waiting.write(
                    logging.WARNING, "query", "waits until the query has started: %s", problem
                )
            await asyncio.sleep(_QUERY_LOOK_S)

    async def load(self, served: ServedQuery, states: StatesReader, *, lazy: bool) -> None:
        """Begins at the newest committed batch; loads all partitions unless `lazy`."""
        for attempt in range(1, _STARTS + 1):
            batch = await self._newest()
            try:
                facts = await self._threads.run(BatchFacts.of, self._checkpoint, batch)
                served.begin(await self._threads.run(states.read, facts), facts)
                if not lazy:
                    await _load_all(served)
                _log_placement(served)
            except VersionGoneError:
                # The query went on meanwhile and removed the files of its older batches.
                if attempt == _STARTS:
                    raise
            else:
                return

    async def _newest(self) -> int:
        checkpoint = self._checkpoint
        while not (batches := await self._threads.run(checkpoint.committed_batches)):
            if not self._follows:
                raise CheckpointError(
                    f"{checkpoint.root} has no committed batch yet: serve it after its first "
                    "batch, or with --follow, which waits for it"
                )
            self._waiting.write(
                logging.INFO, "batch", "%s: waits for the first batch", checkpoint.root
            )
            await asyncio.sleep(_BATCH_LOOK_S)
        return batches[-1]


def _log_placement(served: ServedQuery) -> None:
    """Says which states have keys that Spark does not place by their hash."""
    states = [
        each.queryable_name
        for operator in served.states.operators
        if not operator.placed_by_hash
        for each in operator.registrations.values()
    ]
    if states:
        _log.warning(
            "%s: %s is not true in its offset log, so keys of %s may be in any partition: "
            "look-ups read them in all partitions",
            served.uri,
            STRICT_DISTRIBUTION,
            ", ".join(states),
        )


async def _load_all(served: ServedQuery) -> None:
    begun_s = time.monotonic()
    loading = asyncio.ensure_future(served.load_all())
    while not (await asyncio.wait({loading}, timeout=_PROGRESS_S))[0]:
        _log.info("%s: %s", served.uri, served.progress)
    loading.result()
    _log.info(
        "%s: %s as of batch %d, in %.1f s",
        served.uri,
        served.progress,
        served.facts.batch,
        time.monotonic() - begun_s,
    )
