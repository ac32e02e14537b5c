"""Known state of jobs: what the driver knows of a job, in one message."""

from __future__ import annotations

from typing import TYPE_CHECKING

from queryable_state.server.coordinator.batches.catalog import job_info
from queryable_state.server.coordinator.model.jobs import RUNNING
from queryable_state.server.coordinator.status.checkpoint_status import checkpoint_status
from queryable_state.server.coordinator.status.operator_status import operator_statuses
from queryable_state.server.job_names import NamedJob, only_job
from queryable_state.v1 import status_pb2

if TYPE_CHECKING:
    from queryable_state.server.coordinator.batches.catalog import Catalog
    from queryable_state.server.coordinator.checkpoints.history import CheckpointHistory
    from queryable_state.server.coordinator.model.jobs import Job
    from queryable_state.server.coordinator.model.state import CoordinatorState
    from queryable_state.server.coordinator.roots.job_roots import JobRoots


class JobStatus:
    """Describes jobs from the coordinator's tables. Thread-safe, no I/O."""

    def __init__(
        self,
        state: CoordinatorState,
        catalog: Catalog,
        roots: JobRoots,
        checkpoints: CheckpointHistory,
    ) -> None:
        self._state = state
        self._catalog = catalog
        self._roots = roots
        self._checkpoints = checkpoints

    def describe(self, request: status_pb2.DescribeJobRequest) -> status_pb2.JobDescription:
        """All that is known of a job; raises `UnknownJobError`."""
        state = self._state
        with state.transaction():
            job = self._resolve(request.job)
            query_id = job.query_id
            committed = state.commits.published_commit(query_id)
            description = status_pb2.JobDescription(
                info=job_info(self._catalog.view(job)),
                operators=operator_statuses(state, job),
                watermark=status_pb2.Watermark(watermark_ms=committed.watermark_ms),
                last_batch=status_pb2.BatchTimes(
                    batch_id=committed.version,
                    running_batch_id=job.run.begun if job.run.begun > committed.version else -1,
                ),
                as_of_ms=state.wall_ms(),
            )
        description.checkpoints.CopyFrom(
            checkpoint_status(
                self._roots.of(query_id),
                self._roots.config(query_id),
                self._checkpoints.of(query_id),
            )
        )
        return description

    def _resolve(self, text: str) -> Job:
        jobs = self._state.jobs
        if text:
            return jobs.resolve(text)
        named = (NamedJob(job.query_id, job.name, job.status == RUNNING) for job in jobs)
        return jobs.resolve(only_job(named).hex())
