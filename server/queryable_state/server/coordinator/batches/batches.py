"""Batches of all jobs: begins, commits, publication rounds and refusals."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from queryable_state.internal.v1 import coordinator_pb2
from queryable_state.server.coordinator.model.jobs import RUNNING
from queryable_state.server.coordinator.model.lifecycles import RunPhase
from queryable_state.wire.errors import (
    JobError,
    QueryableStateError,
    Reason,
    StateLostError,
    SupersededError,
    UnknownJobError,
)
from queryable_state.wire.keys.key_groups import key_group_range

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Mapping, Sequence

    from queryable_state.internal.v1 import backend_pb2
    from queryable_state.internal.v1.checkpoint_pb2 import ChangelogFile, JobStorage, Timeline
    from queryable_state.server.coordinator.model.commits import CommitRound
    from queryable_state.server.coordinator.model.engine import BatchClocks, QueryInfo
    from queryable_state.server.coordinator.model.jobs import Job
    from queryable_state.server.coordinator.model.operators import Operator
    from queryable_state.server.coordinator.model.placement import Placement
    from queryable_state.server.coordinator.model.state import CoordinatorState

# Minimum number of watermarks in the answer to a begin: servers begin before every operator has
# registered its depth. Each of the first ones costs one file read, once per run.
_WATERMARKS = 8


@dataclass(frozen=True)
class InFlight:
    """A batch that has begun and is not known to be committed."""

    query_id: bytes
    batch_id: int


@dataclass(frozen=True)
class BatchAnomaly:
    """Something a committed batch shows to be wrong with its job."""

    batch_id: int
    error: QueryableStateError


class Batches:
    """Begins and commits batches. Thread-safe, no I/O."""

    def __init__(self, state: CoordinatorState) -> None:
        self._state = state

    def missing_clocks(self, query_id: bytes, info: QueryInfo, batch_id: int) -> list[int]:
        """The batches whose clocks a begin needs and that are not cached yet, newest first."""
        with self._state.transaction():
            job = self._state.enter(query_id, info)
            oldest = max(0, batch_id - self._depth(job) + 1)
            return [b for b in range(batch_id, oldest - 1, -1) if b not in job.run.clocks]

    def begin(
        self,
        request: coordinator_pb2.BeginBatchRequest,
        info: QueryInfo,
        clocks: Mapping[int, BatchClocks],
    ) -> bool:
        """Records the begin of a batch, which proves that the batch before it is committed.

        True if the newest commit is not published yet.
        """
        state = self._state
        with state.transaction():
            job = state.enter(request.query_id, info)
            self._check_run(job, request)
            job.run.check_not_refused()
            state.contact(job, request.batch_id)
            depth = self._depth(job)
            for batch_id, known in clocks.items():
                job.run.keep_clocks(batch_id, known, depth)
            if request.batch_id > job.run.begun:
                job.run.begun_at_ms = state.wall_ms()
            job.run.begin_batch(request.batch_id)
            state.advance_commit(job, request.batch_id - 1)
            newest = state.commits.version(request.query_id)
            return not state.commits.is_published(request.query_id, newest)

    def begun(
        self,
        request: coordinator_pb2.BeginBatchRequest,
        epoch: int,
        storage: JobStorage,
        timeline: Timeline,
    ) -> coordinator_pb2.BeginBatchResponse:
        """The response to a begin; raises the error of the run if it was refused meanwhile."""
        state = self._state
        with state.transaction():
            job = state.jobs.find(request.query_id)
            if job is None:
                raise UnknownJobError(f"query {request.query_id.hex()} was dropped")
            job.run.check_not_refused()
            self._check_run(job, request)
            watermarks: list[int] = []
            depth, batch_id = self._depth(job), request.batch_id
            while batch_id in job.run.clocks and len(watermarks) < depth:
                watermarks.append(job.run.clocks[batch_id].watermark_ms)
                batch_id -= 1
            if not watermarks:
                raise SupersededError(f"job {job.label} is past batch {request.batch_id}")
            clocks = job.run.clocks[request.batch_id]
            return coordinator_pb2.BeginBatchResponse(
                run_epoch=epoch,
                batch_timestamp_ms=clocks.timestamp_ms,
                watermarks_ms=watermarks,
                committed=state.commits.published_version(request.query_id),
                offsets_digest=clocks.offsets_digest,
                storage=storage,
                timeline=timeline,
            )

    def commit(self, query_id: bytes, batch_id: int) -> None:
        """Records that all batches up to this one are committed, unless the run is refused."""
        with self._state.transaction():
            job = self._state.jobs.find(query_id)
            if job is not None and job.run.refusal is None:
                self._state.advance_commit(job, batch_id)

    def was_begun(self, query_id: bytes, batch_id: int) -> bool:
        """Whether this run has begun the batch."""
        with self._state.transaction():
            job = self._state.jobs.find(query_id)
            return job is not None and batch_id <= job.run.begun

    def committed(self, query_id: bytes) -> int:
        """The newest committed batch; -1: none."""
        with self._state.transaction():
            return self._state.commits.version(query_id)

    def in_flight(self) -> list[InFlight]:
        """The batches for whose commit Spark must be polled."""
        state = self._state
        with state.transaction():
            return [
                InFlight(job.query_id, job.run.begun)
                for job in state.jobs
                if job.status == RUNNING and job.run.begun > state.commits.version(job.query_id)
            ]

    def next_round(self, query_id: bytes) -> CommitRound | None:
        """Starts the publication that is due, if any; `end_round` or `abandon_round` ends it."""
        with self._state.transaction():
            job = self._state.jobs.find(query_id)
            if job is None or job.run.phase in {RunPhase.REFUSED, RunPhase.FENCED}:
                return None
            holders = self._state.holders(query_id)
            return self._state.commits.begin_round(query_id, job.run.run_id, holders)

    def holders(self, query_id: bytes) -> dict[str, str]:
        """The servers that hold state of a query: HOST:PORT of `StateBackend` by id."""
        with self._state.transaction():
            return self._state.holders(query_id)

    def behind(
        self, query_id: bytes, answered: Container[str], unreported: Sequence[ChangelogFile]
    ) -> dict[str, str]:
        """The servers that lack changelogs of a committed batch: HOST:PORT of backend by id."""
        state = self._state
        with state.transaction():
            holders = state.holders(query_id)
            return {
                server_id: holders[server_id]
                for server_id in _behind(state.placement, query_id, answered, unreported)
                if server_id in holders
            }

    def close_stores(self, query_id: bytes, server_ids: Container[str]) -> None:
        """Closes the stores of a query on servers that have dropped them."""
        placement = self._state.placement
        with self._state.transaction():
            for operator in placement.operators(query_id):
                for index, ownership in operator.subtasks.items():
                    if ownership.opened and ownership.server_id in server_ids:
                        placement.close(operator, index)

    def refuse(self, query_id: bytes, error: QueryableStateError) -> bool:
        """Refuses all further batches of a query's newest run; False if it is refused already."""
        with self._state.transaction():
            job = self._state.jobs.find(query_id)
            if job is None or not job.run.refuse(error):
                return False
            job.partial_batches += 1
            self._state.commits.withdraw(query_id)
            self._state.notify_waiters()
            return True

    def count_incomplete(self, query_id: bytes) -> None:
        """Counts a batch that an operator missed and the settings accept."""
        with self._state.transaction():
            job = self._state.jobs.find(query_id)
            if job is not None:
                job.partial_batches += 1

    def abandon_round(self, commit_round: CommitRound) -> None:
        """Ends a round whose manifests could not be written; the commit is due again."""
        with self._state.transaction():
            self._state.commits.abandon_round(commit_round)
            self._state.notify_waiters()

    def end_round(
        self,
        commit_round: CommitRound,
        seals: Mapping[str, Sequence[backend_pb2.SealedSubtask]],
    ) -> list[BatchAnomaly]:
        """Ends a round, with the seals of each server that answered; returns anomalies."""
        state = self._state
        query_id = commit_round.query_id
        with state.transaction():
            job = state.jobs.find(query_id)
            # Before the next batch may begin.
            lost = _close_lost(state.placement, commit_round, seals)
            state.commits.end_round(commit_round)
            state.notify_waiters()
            if job is None:
                return []
            for server_id in seals:
                state.commits.ack(query_id, server_id, commit_round.commit.version)
            state.advance_min_acked(query_id)
            reports = (
                seals.values(),
                commit_round.commit.version,
                lambda uid: state.states.operator_name(query_id, uid),
                job.label,
            )
            anomalies = [*_check_determinism(*reports), *_check_broadcast(*reports)]
            job.non_deterministic_batches += len(anomalies)
            return [
                *anomalies,
                *(
                    _loss(job.label, state.states.operator_name(query_id, op.uid), op, index)
                    for op, index in lost
                ),
            ]

    def is_published(self, query_id: bytes) -> bool:
        """Whether the newest commit is published."""
        with self._state.transaction():
            commits = self._state.commits
            return commits.is_published(query_id, commits.version(query_id))

    def wait_published(self, query_id: bytes, version: int, timeout_s: float) -> bool:
        """Waits until `version` is published; False if it is not within the timeout.

        Raises the error of the run as soon as the run is fenced or refused.
        """
        state = self._state

        def is_over() -> bool:
            job = state.jobs.find(query_id)
            if job is not None:
                job.run.check_not_fenced()
                job.run.check_not_refused()
            return state.commits.is_published(query_id, version)

        return state.wait_for(is_over, timeout_s)

    def _depth(self, job: Job) -> int:
        return max(_WATERMARKS, self._state.states.deepest(job.query_id) + 1)

    def _check_run(self, job: Job, request: coordinator_pb2.BeginBatchRequest) -> None:
        if job.run.run_id != request.run_id:
            raise SupersededError(
                f"job {job.label}: batch {request.batch_id} is of run {request.run_id.hex()}, and "
                f"run {job.run.run_id.hex()} has taken over"
            )


def _close_lost(
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


def _behind(
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


def _loss(job: str, label: str, operator: Operator, index: int) -> BatchAnomaly:
    """The anomaly of a subtask that `_close_lost` closed."""
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


def _check_determinism(
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


def _check_broadcast(
    seals: Iterable[Sequence[backend_pb2.SealedSubtask]],
    version: int,
    label: Callable[[str], str],
    job: str,
) -> list[BatchAnomaly]:
    """The operators whose subtasks changed broadcast state differently, by the same reports."""
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
