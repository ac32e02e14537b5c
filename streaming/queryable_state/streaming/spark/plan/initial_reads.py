"""Reads of initial state: each operator reads its own in the first batch that it runs."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from queryable_state.streaming.spark.queries.failure import to_be_carried
from queryable_state.wire.errors import JobError, QueryableStateError, Reason

if TYPE_CHECKING:
    from collections.abc import Callable
    from collections.abc import Set as AbstractSet

    from queryable_state.streaming.graph.job_graph import JobGraph
    from queryable_state.streaming.spark.plan.stage_compiler import StageCompiler

_log = logging.getLogger("queryable_state.streaming")


class InitialReads:
    """Decides which operators of a graph read their initial state in a batch.

    An operator reads it until a batch is committed in which it ran. The coordinator knows these
    from the files of the batches before, so a replay of the batch decides alike.
    """

    def __init__(self, compiler: StageCompiler, graph: JobGraph) -> None:
        self._compiler = compiler
        self._graph = graph
        self._names = {
            node.uid: node.name
            for node in graph.operators
            if any(each.is_initial for each in node.inputs)
        }
        self._continued: set[str] = set()
        """Operators known to have state of a committed batch, which they do not lose."""

    def starting(self, batch_id: int, query_id_of: Callable[[], bytes | None]) -> AbstractSet[str]:
        """The uids of the operators that read their initial state in a batch.

        `query_id_of` asks Spark for the query id; it is called only if the answer is open.
        """
        starting = self._names.keys() - self._continued
        if not starting or batch_id == 0:
            return starting
        query_id = query_id_of()
        if query_id is None:
            raise JobError(
                f"batch {batch_id} of a job with initial_state has no query id "
                "(sql.streaming.queryId), so its operators cannot be told from new ones",
                reason=Reason.MISSING_BATCH_ID,
            )
        try:
            continued = self._compiler.continued(self._graph, query_id, batch_id)
        except QueryableStateError as error:
            raise to_be_carried(error) from None
        self._continued |= starting & continued
        starting -= self._continued
        for uid in sorted(starting):
            _log.info(
                "operator %r has no state from before batch %d, in which it reads its initial "
                "state",
                self._names[uid],
                batch_id,
            )
        return starting
