"""Refusal of a batch that the engine committed and whose records are not all in the state."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

from queryable_state.wire.errors import QueryableStateError

if TYPE_CHECKING:
    import threading

    from queryable_state.server.coordinator.batches.batches import Batches
    from queryable_state.server.coordinator.batches.missed import (
        IncompleteBatchError,
        LostBatchError,
    )
    from queryable_state.server.coordinator.model.engine import Engine
    from queryable_state.server.coordinator.roots.fencing import Fencing

_log = logging.getLogger(__name__)

_POLL_S = 0.05
_END_S = 120.0


class Refusals:
    """Stops a query whose batch is incomplete, and withdraws the engine's commit of the batch.

    The state stays as of the batch before, so that the next run of the query begins with the
    batch again, of the same offsets. Blocking: it waits for the end of the query, because a
    running one could commit the next batch meanwhile.
    """

    def __init__(
        self, engine: Engine, batches: Batches, fencing: Fencing, stopping: threading.Event
    ) -> None:
        self._engine = engine
        self._batches = batches
        self._fencing = fencing
        self._stopping = stopping

    def refuse(
        self, query_id: bytes, run_id: bytes, error: IncompleteBatchError | LostBatchError
    ) -> None:
        """Refuses a batch of a run, once; may be repeated."""
        if self.mark(query_id, error):
            self.withdraw(query_id, run_id, error)

    def mark(self, query_id: bytes, error: IncompleteBatchError | LostBatchError) -> bool:
        """Lets the newest run begin no batch. True: the caller must call `withdraw`, too.

        Does not wait. An error that also goes to others, who may refuse the run with it, is
        marked first: whoever refuses a run first is the one to withdraw the commit.
        """
        return self._batches.refuse(query_id, error)

    def withdraw(
        self, query_id: bytes, run_id: bytes, error: IncompleteBatchError | LostBatchError
    ) -> None:
        """Stops the query, and withdraws the engine's commit once it has ended."""
        _log.error("%s: %s", error.reason_name, error)
        try:
            self._engine.stop_query(query_id, error)
            if not self._await_end(query_id, run_id):
                return
            # What another driver has committed since is its own.
            self._fencing.check_query(query_id)
            hindrance = self._engine.withdraw_commits(query_id, error.batch_id)
        except QueryableStateError as failure:
            _log.error(
                "query %s: Spark's commit of batch %d is not withdrawn (%s); the next run of the "
                "query is refused for the same batch, and withdraws it",
                query_id.hex(),
                error.batch_id,
                failure,
            )
            return
        _log.warning(
            "query %s: Spark's commit of batch %d is withdrawn, the state is as of batch %d; the "
            "next run of the query begins with batch %d%s",
            query_id.hex(),
            error.batch_id,
            error.batch_id - 1,
            error.batch_id,
            f". But {hindrance}" if hindrance else "",
        )

    def _await_end(self, query_id: bytes, run_id: bytes) -> bool:
        """Waits for the end of a run; False where it does not come, or the coordinator stops."""
        give_up_s = time.monotonic() + _END_S
        while time.monotonic() < give_up_s:
            info = self._engine.query(query_id)
            if info is None or not info.active or info.run_id != run_id:
                return True
            if self._stopping.wait(_POLL_S):
                return False
        _log.error("query %s does not end: Spark's commit is not withdrawn", query_id.hex())
        return False
