"""Completeness of committed batches: every operator with input has sealed all its subtasks.

Spark can commit a batch that an operator missed: a `foreachBatch` function ran no action, or
the optimizer removed the operator from the plan. No state then has the records of the batch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from queryable_state.server.coordinator.batches.manifests import list_committed
from queryable_state.wire.keys.key_groups import subtask_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from queryable_state.internal.v1 import backend_pb2
    from queryable_state.internal.v1.checkpoint_pb2 import ChangelogFile
    from queryable_state.server.coordinator.batches.missed import (
        IncompleteBatchError,
        MissedOperator,
    )
    from queryable_state.server.coordinator.batches.run_operators import RunOperators
    from queryable_state.server.coordinator.model.commits import CommitRound
    from queryable_state.server.coordinator.model.engine import Engine
    from queryable_state.server.coordinator.model.operators import OperatorLayout
    from queryable_state.server.coordinator.roots.job_roots import JobRoots


class Completeness:
    """Checks the batches of a commit round before servers are told of the commit. Blocking."""

    def __init__(self, engine: Engine, operators: RunOperators, roots: JobRoots) -> None:
        self._engine = engine
        self._operators = operators
        self._roots = roots

    def first_error(
        self,
        commit_round: CommitRound,
        seals: Mapping[str, Sequence[backend_pb2.SealedSubtask]],
    ) -> IncompleteBatchError | None:
        """Returns the error of the first incomplete batch of a round; None if all are complete.

        `seals` has an entry for each server that answered. With a durable root, the files of
        the batch decide about unreported subtasks; without one, a subtask whose owner did not
        answer counts as sealed. Raises if the root or the offsets cannot be read now.
        """
        for batch_id in range(commit_round.after + 1, commit_round.commit.version + 1):
            for missed in self._operators.missed(commit_round.query_id, batch_id, seals):
                error = self._error(commit_round.query_id, missed)
                if error is not None:
                    return error
        return None

    def _error(self, query_id: bytes, missed: MissedOperator) -> IncompleteBatchError | None:
        root = self._roots.of(query_id)
        missing: Sequence[int] = missed.unsealed
        if root is not None:
            if missed.batch_id < root.first_batch or root.manifest(missed.batch_id) is not None:
                return None
            digest = self._engine.clocks(query_id, missed.batch_id).offsets_digest
            files = list_committed(root, missed.batch_id, digest)
            missing = [i for i in uncovered(files, missed.layout) if i in missed.missing]
        sources = missed.layout.sources
        if not missing or not self._engine.has_input(query_id, missed.batch_id, sources):
            return None
        return missed.error(missing)


def uncovered(files: Iterable[ChangelogFile], layout: OperatorLayout) -> list[int]:
    """Returns the subtasks of an operator that these changelogs do not cover completely."""
    parallelism, max_parallelism = layout.parallelism, layout.max_parallelism
    missing = uncovered_key_groups(files, layout)
    return sorted({subtask_of(group, parallelism, max_parallelism) for group in missing})


def uncovered_key_groups(files: Iterable[ChangelogFile], layout: OperatorLayout) -> list[int]:
    """Returns the key groups of an operator that no changelog of it covers, ascending."""
    sealed: set[int] = set()
    for file in files:
        if file.operator_uid == layout.uid:
            sealed.update(range(file.first_key_group, file.last_key_group + 1))
    return [group for group in range(layout.max_parallelism) if group not in sealed]
