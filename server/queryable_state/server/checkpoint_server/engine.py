"""Reads as of the checkpoint: nothing newer will ever come."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from queryable_state.server.checkpoint_server.loading import PLACEMENT_VERSION
from queryable_state.server.state_server.base.lease import Lease
from queryable_state.server.state_server.queries.requested_version import RequestedVersion
from queryable_state.server.state_server.queries.state_reader import StateReader
from queryable_state.v1 import query_pb2
from queryable_state.wire.errors import InvalidRequestError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

    from queryable_state.server.checkpoint.completed import Completed
    from queryable_state.server.query.scan_query import ScanQuery
    from queryable_state.server.settings import Limits
    from queryable_state.server.state_server.base.bulk_thread import BackgroundThread
    from queryable_state.server.state_server.stores.store_table import StoreTable

# Nobody else can ever own what a checkpoint has.
_LEASE_MS = 1 << 50


class CheckpointReader:
    """A `StateReader` over the stores of one checkpoint.

    Expiry is judged as of the commit of its batch: an answer is what the job would have answered
    then. A query that wants a newer batch is refused for good, for it would wait in vain.
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
        self._engine = StateReader(
            table, lease, limits, background, server_id=server_id, now_ms=lambda: commit_time_ms
        )

    def answer(self, query: query_pb2.Query) -> query_pb2.Answer | None:
        """The whole answer; None: later. Never raises: refusals stand in the answer."""
        return self._refused(query) or self._engine.answer(query)

    async def answer_later(self, query: query_pb2.Query) -> query_pb2.Answer:
        """The whole answer to any query."""
        return self._refused(query) or await self._engine.answer_later(query)

    def scan(self, query: ScanQuery) -> AsyncGenerator[query_pb2.ScanKvStateResponse, None]:
        """The keys of a range."""
        refusal = self._refusal(RequestedVersion.of_scan(query))
        if refusal is not None:
            raise refusal
        return self._engine.scan(query)

    async def measure(self, state_id: int) -> list[query_pb2.StatePart]:
        """About how much there is of a state."""
        return await self._engine.measure(state_id)

    def _refused(self, query: query_pb2.Query) -> query_pb2.Answer | None:
        """The answer to a query of a batch that never comes; None: it may be answered."""
        if query.min_version or query.max_staleness_ms or query.HasField("at_version"):
            try:
                refusal = self._refusal(RequestedVersion.of(query))
            except InvalidRequestError as contradiction:
                refusal = contradiction
            if refusal is not None:
                return query_pb2.Answer(id=query.id, last=True, error=refusal.to_proto())
        return None

    def _refusal(self, asked: RequestedVersion) -> InvalidRequestError | None:
        metadata, uri = self._completed.metadata, self._completed.uri
        wanted = asked.min_version if asked.at_version is None else asked.at_version
        if wanted > metadata.version:
            return InvalidRequestError(
                f"{uri} is of batch {metadata.version}, batch {wanted} "
                f"{'or later ' if asked.at_version is None else ''}was asked for: ask the job, or "
                "serve a newer checkpoint"
            )
        age_ms = self._now_ms() - metadata.commit_time_ms
        if asked.at_version is None and 0 < asked.max_staleness_ms < age_ms:
            return InvalidRequestError(
                f"{uri} is of a commit {age_ms} ms ago, at most {asked.max_staleness_ms} ms were "
                "asked for: ask the job, or serve a newer checkpoint"
            )
        return None
