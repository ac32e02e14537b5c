"""Spark's commits of batches, as the coordinator takes them over."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from queryable_state.internal.v1 import coordinator_pb2
from queryable_state.server.coordinator.batches.run_operators import (
    IncompleteBatchError,
    LostBatchError,
)
from queryable_state.wire.errors import QueryableStateError, SupersededError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from queryable_state.server.coordinator.batches.batches import Batches
    from queryable_state.server.coordinator.batches.commit_publisher import CommitPublisher
    from queryable_state.server.coordinator.batches.run_operators import RunOperators
    from queryable_state.server.coordinator.model.engine import Engine, QueryInfo
    from queryable_state.server.coordinator.model.operators import OperatorLayout
    from queryable_state.server.coordinator.recovery.run_binder import RunBinder

_log = logging.getLogger(__name__)


class BatchCommits:
    """Records Spark's commits, and refuses batches that an operator missed. Thread-safe."""

    def __init__(
        self,
        engine: Engine,
        run_binder: RunBinder,
        batches: Batches,
        operators: RunOperators,
        publisher: CommitPublisher,
    ) -> None:
        self._engine = engine
        self._run_binder = run_binder
        self._batches = batches
        self._operators = operators
        self._publisher = publisher

    def bind(
        self,
        request: coordinator_pb2.BeginBatchRequest,
        info: QueryInfo,
        still_newest: Callable[[], None],
    ) -> None:
        """Same contract as `RunBinder.bind`.

        Refuses a run whose newest batch is incomplete, and withdraws Spark's commit of that batch.
        """
        try:
            self._run_binder.bind(request, info, still_newest)
        except (IncompleteBatchError, LostBatchError) as error:
            self._publisher.refuse(request.query_id, request.run_id, error)
            raise

    def batch_committed(self, query_id: bytes, batch_id: int) -> None:
        """Handles a report that a batch is committed.

        The report is trusted if this run has begun the batch; else Spark is asked.
        """
        if batch_id <= self._batches.committed(query_id):
            return
        try:
            if not self._batches.was_begun(query_id, batch_id):
                if not self._engine.is_committed(query_id, batch_id):
                    return
                self._check_unbegun(query_id, batch_id)
        except QueryableStateError as failure:
            _log.info("commit of batch %d of %s: %s", batch_id, query_id.hex(), failure)
            return
        self._batches.commit(query_id, batch_id)
        self._publisher.announce(query_id)

    def _check_unbegun(self, query_id: bytes, batch_id: int) -> None:
        """Refuses a batch that is committed in a run of which no task has begun any batch."""
        start, info = self._operators.start(query_id), self._engine.query(query_id)
        if start is None or info is None or self._run_binder.is_bound(query_id, info.run_id):
            return
        if start.after >= 0 and self._run_binder.is_durable(start.config_id, info):
            # An earlier run may have sealed the batch: the root tells.
            first = coordinator_pb2.BeginBatchRequest(
                query_id=query_id,
                run_id=info.run_id,
                batch_id=batch_id + 1,
                config_id=start.config_id,
            )
            self.bind(first, info, lambda: self._check_newest(first))
            return
        for batch in range(start.after + 1, batch_id + 1):
            for missed in self._operators.unbegun(query_id, batch):
                if self._engine.has_input(query_id, batch, missed.layout.sources):
                    self._publisher.missed(query_id, info.run_id, missed.error(missed.missing))
                    return

    def is_sealed(
        self, query_id: bytes, batch_id: int, operators: Iterable[OperatorLayout]
    ) -> bool:
        """Whether servers report seals of all subtasks of a batch that is not committed yet."""
        seals = self._publisher.sealed(query_id, batch_id)
        return self._operators.have_sealed(batch_id, operators, seals.values())

    def settle(self, query_id: bytes, batch_id: int, timeout_s: float) -> bool:
        """Records the commit of a batch, and waits until it is published; False if it is not."""
        self.batch_committed(query_id, batch_id)
        if self._batches.committed(query_id) < batch_id:
            return False
        return self._batches.wait_published(query_id, batch_id, timeout_s)

    def _check_newest(self, request: coordinator_pb2.BeginBatchRequest) -> None:
        info = self._engine.query(request.query_id)
        if info is None or info.run_id != request.run_id:
            raise SupersededError(f"query {request.query_id.hex()} has a newer run")
