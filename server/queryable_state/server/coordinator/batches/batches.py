"""Batches of all jobs: begins, commits, publication rounds and refusals."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from queryable_state.internal.v1 import coordinator_pb2
from queryable_state.server.coordinator.batches.checks import check_broadcast, check_determinism
from queryable_state.server.coordinator.batches.facts import BatchFacts
from queryable_state.server.coordinator.batches.losses import (
    behind,
    close_lost,
    lost_finding,
)
from queryable_state.server.coordinator.model.jobs import RUNNING
from queryable_state.server.coordinator.model.lifecycles import RunPhase
from queryable_state.wire.errors import SupersededError, UnknownJobError

if TYPE_CHECKING:
    from collections.abc import Container, Mapping, Sequence

    from queryable_state.internal.v1 import backend_pb2
    from queryable_state.internal.v1.checkpoint_pb2 import ChangelogFile, JobStorage, Timeline
    from queryable_state.server.coordinator.batches.checks import BatchAnomaly
    from queryable_state.server.coordinator.model.commits import CommitRound
    from queryable_state.server.coordinator.model.engine import BatchClocks, QueryInfo
    from queryable_state.server.coordinator.model.jobs import Job
    from queryable_state.server.coordinator.model.state import CoordinatorState
    from queryable_state.wire.errors import QueryableStateError

# Minimum number of watermarks in the answer to a begin: servers begin before every operator has
# registered its depth. Each of the first ones costs one file read, once per run.
_WATERMARKS = 8


@dataclass(frozen=True)
class InFlight:
    """A batch that has begun and is not known to be committed."""

    query_id: bytes
    batch_id: int


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
    ) -> None:
        """Records the begin of a batch, which proves that the batch before it is committed."""
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

    def begun(
        self,
        request: coordinator_pb2.BeginBatchRequest,
        epoch: int,
        storage: JobStorage,
        timeline: Timeline,
    ) -> coordinator_pb2.BeginBatchResponse:
        """The response to a begin."""
        state = self._state
        with state.transaction():
            job = state.jobs.find(request.query_id)
            if job is None:
                raise UnknownJobError(f"query {request.query_id.hex()} was dropped")
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

    def facts(self, query_id: bytes, batch_id: int) -> BatchFacts | None:
        """The facts of a batch for its manifest; None if the job was dropped."""
        state = self._state
        with state.transaction():
            job = state.jobs.find(query_id)
            if job is None:
                return None
            clocks = job.run.clocks.get(batch_id)
            first = job.run.first_batch
            return BatchFacts(
                batch_id=batch_id,
                offsets_digest=clocks.offsets_digest if clocks else b"",
                watermark_ms=clocks.watermark_ms if clocks else 0,
                first_of_run=first is None or batch_id <= first,
                parallelisms={
                    operator.uid: (operator.parallelism, operator.max_parallelism)
                    for operator in state.placement.operators(query_id)
                },
            )

    def behind(
        self, query_id: bytes, answered: Container[str], unreported: Sequence[ChangelogFile]
    ) -> dict[str, str]:
        """The servers that lack changelogs of a committed batch: HOST:PORT of backend by id."""
        state = self._state
        with state.transaction():
            holders = state.holders(query_id)
            return {
                server_id: holders[server_id]
                for server_id in behind(state.placement, query_id, answered, unreported)
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

    def check_not_refused(self, query_id: bytes) -> None:
        """Raises the error that the newest run of a query was refused with, if it was."""
        with self._state.transaction():
            job = self._state.jobs.find(query_id)
            if job is not None:
                job.run.check_not_refused()

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
            lost = close_lost(state.placement, commit_round, seals)
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
            anomalies = [*check_determinism(*reports), *check_broadcast(*reports)]
            job.non_deterministic_batches += len(anomalies)
            return [
                *anomalies,
                *(
                    lost_finding(job.label, state.states.operator_name(query_id, op.uid), op, index)
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
