"""Operators that a batch continues: those with state of an earlier committed batch."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from queryable_state.internal.v1 import coordinator_pb2
from queryable_state.wire.calls.retrying import RetryPolicy, retrying_blocking
from queryable_state.wire.errors import UnknownJobError
from queryable_state.wire.next_step import NextStep

if TYPE_CHECKING:
    from collections.abc import Callable
    from collections.abc import Set as AbstractSet

    from queryable_state.server.coordinator.batches.run_operators import RunOperators
    from queryable_state.server.coordinator.model.engine import Engine
    from queryable_state.server.coordinator.roots.job_roots import JobRoots

_RETRIES = RetryPolicy(
    steps=frozenset({NextStep.RETRY_SAME, NextStep.LOCATE_AGAIN, NextStep.WAIT}),
    first_delay_s=0.05,
    longest_delay_s=1.0,
)


class ContinuedOperators:
    """Tells a new operator of a job from one that continues. Blocking, thread-safe.

    The answer for a batch depends only on the batches before it. So it is the same in each run of
    the batch, also after a crash: what an uncommitted run of the batch has sealed does not count.
    """

    def __init__(
        self,
        engine: Engine,
        begin: Callable[[coordinator_pb2.BeginBatchRequest], object],
        roots: JobRoots,
        operators: RunOperators,
    ) -> None:
        """`begin` begins a batch, as the first task of the batch does: then the run is bound to its
        root, and the batch before is written down as committed."""
        self._engine = engine
        self._begin = begin
        self._roots = roots
        self._operators = operators

    def of(
        self, query_id: bytes, batch_id: int, config_id: str, timeout_s: float
    ) -> AbstractSet[str]:
        """The uids of the operators with state from before a batch of the newest run.

        With durable state these are the operators that a restore would read; without it those that
        servers have opened for an earlier batch. Raises the refusal of the run if it cannot
        continue from its root.
        """

        def attempt() -> AbstractSet[str]:
            info = self._engine.query(query_id)
            if info is None:
                raise UnknownJobError(f"no streaming query {query_id.hex()} runs in this driver")
            self._begin(
                coordinator_pb2.BeginBatchRequest(
                    query_id=query_id,
                    run_id=info.run_id,
                    batch_id=batch_id,
                    config_id=config_id,
                )
            )
            root = self._roots.of(query_id)
            if root is not None:
                return root.stored_uids(batch_id - 1)
            return self._operators.opened_before(query_id, batch_id)

        return retrying_blocking(attempt, _RETRIES, deadline_s=time.monotonic() + timeout_s)
