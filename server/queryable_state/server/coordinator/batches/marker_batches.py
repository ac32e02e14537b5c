"""Batches without input: the rule by which a query with timers gets them, and who applies it.

A query with timers has a marker source, a source without rows whose offset moves when the query
needs a batch. The rule depends only on what the newest batch left behind and on the wall clock, so
it decides alike after a restart.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from queryable_state.internal.v1 import coordinator_pb2
from queryable_state.wire.errors import QueryableStateError
from queryable_state.wire.event_time import END_OF_TIME

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from queryable_state.server.coordinator.batches.commit_publisher import CommitPublisher
    from queryable_state.server.coordinator.model.engine import Engine
    from queryable_state.server.coordinator.model.jobs import Job
    from queryable_state.server.coordinator.model.state import CoordinatorState

_log = logging.getLogger(__name__)


class Demand(Enum):
    """What a query needs."""

    NONE = "no batch"
    BATCH = "a batch"
    END_OF_TIME = "a batch with the watermark at the end of event time"


@dataclass(frozen=True, kw_only=True)
class LastBatch:
    """What the newest batch of a query left behind; the batch is committed."""

    had_input: bool
    """True if a source other than the marker source moved."""
    watermarks_ms: Sequence[int]
    """The watermarks of this batch and the ones before it, newest first; 0: none."""
    depth: int
    """The depth of the deepest operator, which sees the watermark of as many batches ago."""
    next_timers_ms: tuple[int | None, int | None]
    """The earliest pending timers, of processing time and of event time, in milliseconds since the
    epoch; None: none."""

    @property
    def _watermark_ms(self) -> int:
        return self.watermarks_ms[0]

    @property
    def _is_settled(self) -> bool:
        """True if the deepest operator has seen the newest watermark, and no later one follows."""
        seen = self.watermarks_ms[self.depth : self.depth + 1]
        return not self.had_input and list(seen) == [self._watermark_ms]

    def demand(self, now_ms: int, *, ends: bool) -> Demand:
        """What the query needs now; `ends` is true if it ends with its input.

        * A processing-time timer is due: a batch.
        * Event-time timers are pending: a batch after each batch with input, which moves the
          watermark, and more until every operator has seen a watermark that makes timers due.
        * The query ends with its input: a batch after each batch with input. A batch without input
          shows that the input has ended: then batches at the end of time until every operator has
          seen it.
        """
        if ends:
            if self.had_input:
                return Demand.BATCH
            ended = self._watermark_ms == END_OF_TIME and self._is_settled
            return Demand.NONE if ended else Demand.END_OF_TIME
        due_ms, event_ms = self.next_timers_ms
        if due_ms is not None and due_ms <= now_ms:
            return Demand.BATCH
        if event_ms is None or self._is_settled:
            return Demand.NONE
        if self.had_input or (self._watermark_ms and event_ms <= self._watermark_ms):
            return Demand.BATCH
        return Demand.NONE


# What a batch leaves behind changes the answer, and a batch takes longer than this.
_VALID_MS = 100
# A time at which no processing-time timer is due.
_NEVER_MS = -1
_ON_THE_WIRE = {
    Demand.NONE: coordinator_pb2.BATCH_DEMAND_NONE,
    Demand.BATCH: coordinator_pb2.BATCH_DEMAND_BATCH,
    Demand.END_OF_TIME: coordinator_pb2.BATCH_DEMAND_END_OF_TIME,
}


@dataclass(frozen=True, kw_only=True)
class _Newest:
    """The newest batch that a run with a marker source has begun."""

    query_id: bytes
    batch_id: int
    watermarks_ms: tuple[int, ...]
    depth: int
    is_published: bool
    is_over: bool
    """True if the run is refused or fenced: it commits no further batch."""


class MarkerBatches:
    """Decides for which queries Spark plans a batch without input. Thread-safe.

    A marker source has an id of its own in each run of a query. The offsets of the run's batches
    contain it, so the first begin of a batch tells the query and the run of an id.
    """

    def __init__(
        self,
        engine: Engine,
        state: CoordinatorState,
        publisher: CommitPublisher,
        *,
        next_timers: Callable[[bytes], tuple[int | None, int | None]],
    ) -> None:
        """`next_timers` returns the earliest timers that are pending after a query's newest
        published batch: of processing time and of event time, in milliseconds."""
        self._engine = engine
        self._state = state
        self._publisher = publisher
        self._next_timers = next_timers
        self._inputs: dict[bytes, tuple[int, bool]] = {}

    def wanted(
        self, request: coordinator_pb2.WantsBatchRequest
    ) -> coordinator_pb2.WantsBatchResponse:
        """What the query of a marker source needs; unknown while its newest batch is in flight."""
        newest = self._newest_of_source(request.clock_id)
        if newest is not None and not newest.is_published:
            self._take_over_commit(newest)
            newest = self._newest_of_source(request.clock_id)
        if newest is not None and newest.is_over:
            return coordinator_pb2.WantsBatchResponse(
                demand=coordinator_pb2.BATCH_DEMAND_NONE, valid_ms=_VALID_MS
            )
        if newest is None or not newest.is_published:
            return coordinator_pb2.WantsBatchResponse()
        last = self._left_behind(newest)
        if last is None:
            return coordinator_pb2.WantsBatchResponse()
        now_ms = self._state.wall_ms()
        valid_ms = _VALID_MS
        due_ms, _ = last.next_timers_ms
        if due_ms is not None:
            valid_ms = max(0, min(valid_ms, due_ms - now_ms))
        return coordinator_pb2.WantsBatchResponse(
            demand=_ON_THE_WIRE[last.demand(now_ms, ends=request.ends)], valid_ms=valid_ms
        )

    def owes_batch(self, query_id: bytes) -> bool:
        """True while the input so far makes another batch of a query necessary, which Spark plans
        without input: windows and event-time timers become due, or it is not known yet."""
        newest = self._newest(
            lambda job: (
                job.query_id == query_id
                and any(clocks.clock_ids for clocks in job.run.clocks.values())
            )
        )
        if newest is None or newest.is_over:
            return False
        last = self._left_behind(newest) if newest.is_published else None
        return last is None or last.demand(_NEVER_MS, ends=False) is not Demand.NONE

    def forget(self, query_id: bytes) -> None:
        """Forgets a dropped query."""
        self._inputs.pop(query_id, None)

    def _newest_of_source(self, clock_id: str) -> _Newest | None:
        """The newest batch of a source's id; None if no batch with the id has begun."""
        return self._newest(
            lambda job: any(clock_id in clocks.clock_ids for clocks in job.run.clocks.values())
        )

    def _newest(self, wanted: Callable[[Job], bool]) -> _Newest | None:
        """The newest batch of the wanted job; None if there is no such job or batch."""
        state = self._state
        with state.transaction():
            for job in state.jobs:
                run = job.run
                if not wanted(job):
                    continue
                depth = state.states.deepest(job.query_id)
                watermarks = []
                for batch_id in range(run.begun, run.begun - depth - 1, -1):
                    if batch_id not in run.clocks:
                        break
                    watermarks.append(run.clocks[batch_id].watermark_ms)
                if not watermarks:
                    return None
                return _Newest(
                    query_id=job.query_id,
                    batch_id=run.begun,
                    watermarks_ms=tuple(watermarks),
                    depth=depth,
                    is_published=state.commits.is_published(job.query_id, run.begun),
                    is_over=run.refusal is not None or bool(run.fencing),
                )
        return None

    def _take_over_commit(self, newest: _Newest) -> None:
        """Publishes the batch if Spark has committed it: the watcher may learn of it later."""
        try:
            if self._engine.is_committed(newest.query_id, newest.batch_id):
                self._publisher.committed(newest.query_id, newest.batch_id)
        except QueryableStateError as failure:
            _log.info("commit of batch %d: %s", newest.batch_id, failure)

    def _left_behind(self, newest: _Newest) -> LastBatch | None:
        """What a published batch left behind; None if its input cannot be told."""
        try:
            had_input = self._had_input(newest)
        except QueryableStateError as failure:
            _log.info("input of batch %d: %s", newest.batch_id, failure)
            return None
        return LastBatch(
            had_input=had_input,
            watermarks_ms=newest.watermarks_ms,
            depth=newest.depth,
            next_timers_ms=self._next_timers(newest.query_id),
        )

    def _had_input(self, newest: _Newest) -> bool:
        """Whether a source other than the marker moved; asked once per batch."""
        batch_id, had_input = self._inputs.get(newest.query_id, (-1, False))
        if batch_id != newest.batch_id:
            had_input = self._engine.has_input(newest.query_id, newest.batch_id, ())
            self._inputs[newest.query_id] = newest.batch_id, had_input
        return had_input
