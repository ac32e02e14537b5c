"""Checks of the seals of a committed batch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from queryable_state.wire.errors import JobError, QueryableStateError, Reason

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from queryable_state.internal.v1 import backend_pb2
    from queryable_state.server.coordinator.model.operators import Operator


@dataclass(frozen=True)
class BatchAnomaly:
    """Something a committed batch shows to be wrong with its job."""

    batch_id: int
    error: QueryableStateError


def check_determinism(
    seals: Iterable[Sequence[backend_pb2.SealedSubtask]],
    version: int,
    label: Callable[[str], str],
    job: str,
) -> list[BatchAnomaly]:
    """The subtasks that ran several times on different input, in batches up to a version.

    `seals` are the reports of each server; `label` names an operator for people.
    """
    reports = [report for reported in seals for report in reported if report.batch_id <= version]
    reports.sort(key=lambda report: (report.operator_uid, report.batch_id, report.subtask))
    return [
        BatchAnomaly(
            report.batch_id,
            _non_deterministic(
                f"job {job}, operator {label(report.operator_uid)}, batch {report.batch_id}", report
            ),
        )
        for report in reports
        if len(set(report.fingerprints)) > 1
    ]


def check_broadcast(
    seals: Iterable[Sequence[backend_pb2.SealedSubtask]],
    version: int,
    label: Callable[[str], str],
    job: str,
) -> list[BatchAnomaly]:
    """The operators whose subtasks changed broadcast state differently; see `check_determinism`."""
    digests: dict[tuple[str, int], dict[int, list[int]]] = {}
    for reported in seals:
        for report in reported:
            if report.batch_id <= version:
                by_digest = digests.setdefault((report.operator_uid, report.batch_id), {})
                by_digest.setdefault(report.broadcast_digest, []).append(report.subtask)
    return [
        BatchAnomaly(
            batch_id, _diverged(f"job {job}, operator {label(uid)}, batch {batch_id}", by_digest)
        )
        for (uid, batch_id), by_digest in sorted(digests.items(), key=lambda found: found[0])
        if len(by_digest) > 1
    ]


def unsealed(
    operator: Operator | None,
    missing: Iterable[int],
    seals: Mapping[str, Sequence[backend_pb2.SealedSubtask]],
    batch_id: int,
) -> tuple[int, ...]:
    """The subtasks, of those nobody reported a seal of, that are known to have none.

    Their owner has answered, or nobody ever opened them. A subtask whose owner opened an empty
    store in place of one that was lost is not among them: its records are lost, not missed.
    """
    known = []
    for index in missing:
        ownership = None if operator is None else operator.subtasks.get(index)
        never_opened = ownership is None or ownership.opened_batch < 0
        if never_opened or (
            ownership is not None
            and ownership.server_id in seals
            and ownership.opened
            and ownership.opened_batch <= batch_id
            and ownership.unsealed_batch != batch_id
        ):
            known.append(index)
    return tuple(known)


def _non_deterministic(where: str, report: backend_pb2.SealedSubtask) -> JobError:
    return JobError(
        f"{where}, subtask {report.subtask}: it ran {len(report.fingerprints)} times, and not on "
        f"the same input; the state holds the last run ({report.row_count} rows), what was emitted "
        "may be of another: make what stands before the operator deterministic (no rand, no "
        "current_timestamp, no source that changes), or persist it in foreachBatch",
        reason=Reason.NON_DETERMINISTIC_INPUT,
    )


def _diverged(where: str, by_digest: Mapping[int, Sequence[int]]) -> JobError:
    groups = sorted(sorted(subtasks) for subtasks in by_digest.values())
    shown = " and ".join(", ".join(map(str, subtasks)) for subtasks in groups)
    return JobError(
        f"{where}: broadcast state was changed differently by the subtasks {shown}: queries and a "
        "start at another parallelism read the state of one of them. Write broadcast state only in "
        "process_broadcast_element, from the broadcast elements alone: not from keyed state, time, "
        "random numbers or the subtask's index",
        reason=Reason.NON_DETERMINISTIC_INPUT,
    )
