"""Reader of the state in a checkpoint, at the checkpoint's batch."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from queryable_state.server.checkpoint_server.checkpoint_loader import PLACEMENT_VERSION
from queryable_state.server.state_server.base.lease import Lease
from queryable_state.server.state_server.queries.state_reader import StateReader
from queryable_state.server.state_server.queries.versions import RequestedVersion
from queryable_state.v1 import query_pb2
from queryable_state.wire.errors import InvalidRequestError, Reason

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

    from queryable_state.server.checkpoint.completed import Completed
    from queryable_state.server.config.limits import Limits
    from queryable_state.server.query.scan_query import ScanQuery
    from queryable_state.server.query.watch_query import WatchQuery
    from queryable_state.server.state_server.base.background_thread import BackgroundThread
    from queryable_state.server.state_server.stores.store_table import StoreTable
    from queryable_state.v1 import hot_keys_pb2, watch_pb2

# No other server ever owns the state of a checkpoint.
_LEASE_MS = 1 << 50


class CheckpointReader:
    """A `StateReader` over the stores of one checkpoint.

    Values expire as of the commit of its batch, so that an answer is the one the job would have
    given then. A query for a newer batch gets a permanent error, because no batch follows.
    """

    def __init__(
        self,
        table: StoreTable,
        completed: Completed,
        limits: Limits,
        background: BackgroundThread,
        *,
        server_id: str,
        now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self._completed = completed
        self._now_ms = now_ms
        lease = Lease()
        lease.renew(lease.now_s(), _LEASE_MS, PLACEMENT_VERSION)
        commit_time_ms = completed.metadata.commit_time_ms
        self._reader = StateReader(
            table, lease, limits, background, server_id=server_id, now_ms=lambda: commit_time_ms
        )

    def look_up(self, query: query_pb2.Query) -> bytes | None:
        """The answer to a query of one key; None if `answer` has to answer it."""
        return self._reader.look_up(query)

    def answer(self, query: query_pb2.Query) -> query_pb2.Answer | None:
        """The whole answer, None if it takes `answer_later`. Errors are in the answer."""
        return self._refused(query) or self._reader.answer(query)

    async def answer_later(self, query: query_pb2.Query) -> query_pb2.Answer:
        """The whole answer to any query."""
        return self._refused(query) or await self._reader.answer_later(query)

    def scan(self, query: ScanQuery) -> AsyncGenerator[query_pb2.ScanKvStateResponse, None]:
        """Scans the keys of a range."""
        refusal = self._refusal(RequestedVersion.of_scan(query))
        if refusal is not None:
            raise refusal
        return self._reader.scan(query)

    def watch(self, query: WatchQuery) -> AsyncGenerator[watch_pb2.WatchKvStateResponse, None]:
        """Refuses: nothing changes in a checkpoint."""
        raise InvalidRequestError(
            f"{self._completed.uri} is served, which never changes: watch the running job instead",
            reason=Reason.UNSUPPORTED,
        )

    async def measure(self, state_id: int) -> list[query_pb2.StatePart]:
        """Estimates the size of a state."""
        return await self._reader.measure(state_id)

    def hot_keys(self, state_id: int, limit: int) -> hot_keys_pb2.ListHotKeysResponse:
        """The keys of a state that queries asked for most often."""
        return self._reader.hot_keys(state_id, limit)

    def _refused(self, query: query_pb2.Query) -> query_pb2.Answer | None:
        """The error answer to a query that the checkpoint's batch cannot satisfy; else None."""
        if query.min_version or query.max_staleness_ms or query.HasField("at_version"):
            try:
                refusal = self._refusal(RequestedVersion.of(query))
            except InvalidRequestError as contradiction:
                refusal = contradiction
            if refusal is not None:
                return query_pb2.Answer(id=query.id, last=True, error=refusal.to_proto())
        return None

    def _refusal(self, requested: RequestedVersion) -> InvalidRequestError | None:
        metadata, uri = self._completed.metadata, self._completed.uri
        exact = requested.at_version is not None
        version = requested.min_version if requested.at_version is None else requested.at_version
        if version > metadata.version:
            return InvalidRequestError(
                f"the query needs batch {version}{'' if exact else ' or later'}, but {uri} is of "
                f"batch {metadata.version}: query the job, or serve a newer checkpoint"
            )
        age_ms = self._now_ms() - metadata.commit_time_ms
        if not exact and 0 < requested.max_staleness_ms < age_ms:
            return InvalidRequestError(
                f"the query allows a staleness of {requested.max_staleness_ms} ms, but {uri} was "
                f"committed {age_ms} ms ago: query the job, or serve a newer checkpoint"
            )
        return None
