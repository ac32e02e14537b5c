"""Detection of stores that lack records of a committed batch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from queryable_state.server.coordinator.batches.checks import BatchAnomaly
from queryable_state.wire.errors import StateLostError
from queryable_state.wire.keys.key_groups import key_group_range

if TYPE_CHECKING:
    from collections.abc import Container, Mapping, Sequence

    from queryable_state.internal.v1 import backend_pb2
    from queryable_state.internal.v1.checkpoint_pb2 import ChangelogFile
    from queryable_state.server.coordinator.model.commits import CommitRound
    from queryable_state.server.coordinator.model.operators import Operator
    from queryable_state.server.coordinator.model.placement import Placement


def close_lost(
    placement: Placement,
    commit_round: CommitRound,
    seals: Mapping[str, Sequence[backend_pb2.SealedSubtask]],
) -> list[tuple[Operator, int]]:
    """Closes stores that were created empty for a batch and have not sealed it.

    A lost store may have sealed the batch, which is committed without those records. The next
    opening reports the state before it as lost. Skips servers that have not answered. Returns the
    closed subtasks.
    """
    sealed = {
        (report.operator_uid, report.subtask, report.batch_id)
        for reports in seals.values()
        for report in reports
    }
    lost = []
    for operator in placement.operators(commit_round.query_id):
        for index, ownership in operator.subtasks.items():
            batch = ownership.unsealed_batch
            known = ownership.server_id in seals
            if not (0 <= batch <= commit_round.commit.version and ownership.opened and known):
                continue
            ownership.unsealed_batch = -1
            if (operator.uid, index, batch) not in sealed:
                placement.close(operator, index)
                lost.append((operator, index))
    return lost


def behind(
    placement: Placement,
    query_id: bytes,
    answered: Container[str],
    unreported: Sequence[ChangelogFile],
) -> set[str]:
    """The servers whose stores lack changelogs of a committed batch.

    Such files are of attempts on a server that lost its key groups, if no other attempt followed.
    """
    servers = set()
    for file in unreported:
        operator = placement.operator(query_id, file.operator_uid)
        if operator is None:
            continue
        for index, ownership in operator.subtasks.items():
            first, last = key_group_range(index, operator.parallelism, operator.max_parallelism)
            overlaps = file.first_key_group <= last and file.last_key_group >= first
            if not (overlaps and ownership.opened and ownership.server_id in answered):
                continue
            loaded = ownership.opened_batch > file.batch_id or file.path in ownership.staged_files
            if not loaded:
                servers.add(ownership.server_id)
    return servers


def lost_finding(job: str, label: str, operator: Operator, index: int) -> BatchAnomaly:
    """The anomaly of a subtask that `close_lost` closed."""
    batch_id = operator.subtasks[index].opened_batch
    first, last = key_group_range(index, operator.parallelism, operator.max_parallelism)
    return BatchAnomaly(
        batch_id,
        StateLostError(
            f"job {job}, operator {label}, subtask {index} (key groups {first} to {last}): batch "
            f"{batch_id} was sealed by a server that is gone, and committed without running "
            "again; there is no durable copy, so its records are lost; the query goes on, and "
            "lookups in this range fail unless they allow incomplete answers"
        ),
    )
