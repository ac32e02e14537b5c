"""What the seals of a committed batch say about the job that made them."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from queryable_state.wire.errors import JobError, QueryableStateError, Reason

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from queryable_state.internal.v1 import backend_pb2
    from queryable_state.server.coordinator.commits import CommitRound
    from queryable_state.server.coordinator.operators import Operator

_SHOWN = 20


@dataclass(frozen=True)
class Finding:
    """Something a committed batch shows to be wrong with its job."""

    batch_id: int
    error: QueryableStateError


def check_batches(
    commit_round: CommitRound,
    seals: Mapping[str, Sequence[backend_pb2.SealedSubtask]],
    operators: Sequence[Operator],
    label: Callable[[str], str],
    job: str,
) -> list[Finding]:
    """Compares the seals reported to one push with the operators of the query.

    `seals` has an entry a server that answered. A subtask counts as not run only
    where its owner answered, or where nobody ever opened it: of a server that
    did not answer nothing is known. `label` names an operator for people.
    """
    by_batch: defaultdict[tuple[str, int], dict[int, backend_pb2.SealedSubtask]] = defaultdict(dict)
    for reports in seals.values():
        for report in reports:
            if report.batch_id <= commit_round.commit.version:
                by_batch[report.operator_uid, report.batch_id][report.subtask] = report
    known = {operator.uid: operator for operator in operators}
    findings: list[Finding] = []
    for (uid, batch_id), sealed in sorted(by_batch.items()):
        where = f"job {job}, operator {label(uid)}, batch {batch_id}"
        operator = known.get(uid)
        # A late report is of a push that failed, when not all were heard; one from before the
        # operator was opened, of its parallelism in an earlier run.
        first = operator.first_opened if operator else None
        if operator and first is not None and batch_id >= max(first, commit_round.after + 1):
            missing = _not_run(operator, sealed, seals, batch_id)
        else:
            missing = []
        if operator and missing:
            findings.append(Finding(batch_id, _partial(where, operator, missing)))
        findings.extend(
            Finding(batch_id, _non_deterministic(where, report))
            for report in sealed.values()
            if len(set(report.fingerprints)) > 1
        )
    return findings


def _not_run(
    operator: Operator,
    sealed: Mapping[int, backend_pb2.SealedSubtask],
    seals: Mapping[str, Sequence[backend_pb2.SealedSubtask]],
    batch_id: int,
) -> list[int]:
    missing = []
    for index in range(operator.parallelism):
        if index in sealed:
            continue
        ownership = operator.subtasks.get(index)
        never_opened = ownership is None or ownership.opened_batch < 0
        if never_opened or (
            ownership is not None
            and ownership.server_id in seals
            and ownership.opened
            and ownership.opened_batch <= batch_id
        ):
            missing.append(index)
    return missing


def _partial(where: str, operator: Operator, missing: Sequence[int]) -> JobError:
    shown = ", ".join(str(index) for index in missing[:_SHOWN])
    more = f" and {len(missing) - _SHOWN} more" if len(missing) > _SHOWN else ""
    return JobError(
        f"{where}: {len(missing)} of {operator.parallelism} subtasks did not run ({shown}{more}), "
        "so the batch is committed without their records in the state; an action that reads only a "
        "part of its DataFrame causes this, such as limit, take, head, first, show or isEmpty in "
        "foreachBatch: let one action read all of it",
        reason=Reason.PARTIAL_BATCH,
    )


def _non_deterministic(where: str, report: backend_pb2.SealedSubtask) -> JobError:
    return JobError(
        f"{where}, subtask {report.subtask}: it ran {len(report.fingerprints)} times, and not on "
        f"the same input; the state holds the last run ({report.row_count} rows), what was emitted "
        "may be of another: make what stands before the operator deterministic (no rand, no "
        "current_timestamp, no source that changes), or persist it in foreachBatch",
        reason=Reason.NON_DETERMINISTIC_INPUT,
    )
